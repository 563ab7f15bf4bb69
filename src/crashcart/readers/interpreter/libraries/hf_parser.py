"""transformers' HfArgumentParser and trl's TrlParser: one flag for each field of the dataclasses, read by argparse.

    parser = HfArgumentParser((ModelArguments, TrainingArguments))
    model_args, training_args = parser.parse_args_into_dataclasses()

Flags that another version of transformers knows are accepted, with the value unknown: which version will run is not known.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from crashcart.numbers import to_float, to_int
from crashcart.readers.interpreter.libraries import models
from crashcart.readers.interpreter.libraries.argparse_parser import (
    Argument,
    Declaration,
    ParserSpec,
    parse_words,
    refuse,
    spec_of,
    words_of,
)
from crashcart.readers.interpreter.libraries.config_files import config_value
from crashcart.readers.interpreter.libraries.field_types import ANY, Field, Kind, defaulted, field_table, fields_in
from crashcart.readers.interpreter.libraries.texts_and_paths import path_text
from crashcart.readers.interpreter.store import FALSE, TRUE
from crashcart.readers.interpreter.values import (
    Class,
    Constant,
    Container,
    Library,
    Result,
    Unknown,
    Value,
    constant_of,
)

if TYPE_CHECKING:
    from crashcart.readers.interpreter.interpreter import Interpreter
    from crashcart.readers.interpreter.trace import Call

__all__ = ["build_dataclass"]

_NUMBERS: dict[str, Any] = {"int": int, "float": float, "str": str, "path": str}
_YES, _NO = {"yes", "true", "t", "y", "1"}, {"no", "false", "f", "n", "0"}
# Fields in older versions (transformers 3 and 4, trl 0.7 to 1.8) that the table does not have.
_OLDER = {
    "transformers.TrainingArguments": [
        "overwrite_output_dir", "evaluation_strategy", "logging_dir", "warmup_ratio", "save_safetensors", "no_cuda",
        "use_mps_device", "fp16_backend", "fp16_opt_level", "half_precision_backend", "jit_mode_eval", "use_ipex",
        "past_index", "group_by_length", "sharded_ddp", "fsdp_min_num_params", "adafactor", "tpu_num_cores",
        "fsdp_transformer_layer_cls_to_wrap", "per_gpu_train_batch_size", "per_gpu_eval_batch_size", "push_to_hub_model_id",
        "push_to_hub_organization", "push_to_hub_token", "include_inputs_for_metrics", "torchdynamo", "ray_scope",
        "dispatch_batches", "split_batches", "include_tokens_per_second", "mp_parameters", "tpu_metrics_debug",
        "xpu_backend", "evaluate_during_training", "use_legacy_prediction_loop", "load_best_model", "report_to",
        "bf16_full_eval", "tf32", "neftune_noise_alpha", "predict_with_generate", "ddp_find_unused_parameters",
        "hub_private_repo", "logging_nan_inf_filter", "sortish_sampler", "generation_max_length", "generation_num_beams",
        "generation_config", "use_liger_kernel", "fsdp", "deepspeed",
    ],
    "trl.DPOConfig": [
        "base_model_attribute_name", "force_use_ref_model", "generate_during_eval", "is_encoder_decoder",
        "label_pad_token_id", "max_completion_length", "max_prompt_length", "max_target_length", "model_adapter_name",
        "padding_value", "ref_adapter_name", "ref_model_init_kwargs", "reference_free", "rpo_alpha", "tools",
        "use_liger_loss", "use_logits_to_keep", "use_num_logits_to_keep",
    ],
    "trl.GRPOConfig": [
        "max_prompt_length", "use_liger_loss", "vllm_device", "vllm_dtype", "vllm_enable_prefix_caching",
        "vllm_guided_decoding_regex", "vllm_max_model_len", "wandb_log_unique_prompts",
    ],
    "trl.KTOConfig": [
        "base_model_attribute_name", "generate_during_eval", "is_encoder_decoder", "label_pad_token_id",
        "max_completion_length", "max_density_ratio", "max_prompt_length", "min_density_ratio", "padding_value",
        "prompt_sample_size", "ref_model_init_kwargs", "truncation_mode", "use_liger_loss",
    ],
    "trl.ModelConfig": [
        "torch_dtype", "trust_remote_code",
    ],
    "trl.RLOOConfig": [
        "base_model", "cliprange", "cliprange_value", "dataset_num_proc", "exp_name", "gamma", "kl_coef", "lam",
        "local_rollout_forward_batch_size", "max_prompt_length", "missing_eos_penalty", "non_eos_penalty",
        "normalize_advantage", "normalize_reward", "num_mini_batches", "num_ppo_epochs", "num_sample_generations",
        "penalty_reward_value", "response_length", "reward_model_path", "rloo_k", "sanity_check", "sft_model_path",
        "stop_token", "stop_token_id", "token_level_kl", "total_episodes", "vf_coef", "vllm_guided_decoding_regex",
        "wandb_log_unique_prompts", "whiten_rewards",
    ],
    "trl.SFTConfig": [
        "chars_per_token", "dataset_batch_size", "max_seq_length", "num_of_sequences", "use_liger",
    ],
    "trl.ScriptArguments": [
        "config", "gradient_checkpointing_use_reentrant", "ignore_bias_buffers",
    ],
}  # fmt: skip


@models("transformers.HfArgumentParser", "trl.TrlParser", "trl.commands.cli_utils.TrlParser", "trl.H4ArgumentParser")
def make_parser(interpreter: Interpreter, call: Call) -> Value:
    """A parser with the flags of its dataclasses."""
    spec = ParserSpec(call)
    types = _types(interpreter, call)
    if types is None:
        spec.known = False
    for cls in types or ():
        add_dataclass(interpreter, spec, cls, call)
    own = {argument.names[0] for argument in spec.arguments if argument.field is not None and not argument.field.library}
    spec.arguments = [  # a field that the program has beside one of the library is of a time when the library had none
        argument
        for argument in spec.arguments
        if argument.field is None or not argument.field.library or argument.names[0] not in own
    ]
    _add_older(spec, types or [], call)
    made = Result("transformers.HfArgumentParser", call, data=spec)
    interpreter.store.set(made, "(types)", interpreter.container("list", types or [], is_open=types is None))
    return made


def _types(interpreter: Interpreter, call: Call) -> list[Value] | None:
    given = call.argument(0, "dataclass_types")
    if isinstance(given, Container):
        items, complete = interpreter.listed(given)
    elif isinstance(given, (Class, Library)):
        items, complete = [given], True
    else:
        return [] if given is None and call.complete else None
    return items if complete and all(isinstance(item, (Class, Library)) for item in items) else None


def add_dataclass(interpreter: Interpreter, spec: ParserSpec, cls: Value, call: Call) -> None:
    """The flags of one dataclass."""
    fields = fields_in(interpreter, cls) if isinstance(cls, (Class, Library)) else []
    libraries = _libraries_of(cls)
    if not fields or any(_has_unknown_fields(name) for name in libraries):
        spec.known = False
    for field in fields:
        if field.init:
            spec.arguments += flags_of(interpreter, field, call)


def _has_unknown_fields(base: str) -> bool:
    """Whether a base class is of a library whose fields are not in our table, as `transformers.GlueDataTrainingArguments`."""
    return base.partition(".")[0] not in {"builtins", *sys.stdlib_module_names} and not field_table(base)


def _add_older(spec: ParserSpec, types: list[Value], call: Call) -> None:
    """Flags of other versions of the libraries, where no dataclass has a field of that name."""
    known = {spelling for argument in spec.arguments for spelling in argument.names}
    for name in dict.fromkeys(name for cls in types for name in _older_fields(cls)):
        if f"--{name}" not in known:
            argument = Argument([f"--{name}"], Declaration(call, {"nargs": Constant("?"), "const": TRUE}))
            argument.dest, argument.field = name, Field(name, ANY, Unknown(kind="version"))
            argument.convert = _any_version
            spec.arguments.append(argument)


def _older_fields(cls: Value) -> list[str]:
    bases = _libraries_of(cls)
    is_of_transformers = any(
        name.startswith(("transformers.", "trl.")) and name.endswith(("Arguments", "Config")) for name in bases
    )
    is_plain = all(name in {"trl.ModelConfig", "trl.ScriptArguments"} for name in bases)
    found = list(_OLDER["transformers.TrainingArguments"]) if is_of_transformers and not is_plain else []
    return found + [name for base in bases if base.startswith("trl.") for name in _OLDER.get(base, ())]


def _libraries_of(cls: Value) -> list[str]:
    return cls.library_bases() if isinstance(cls, Class) else [cls.name] if isinstance(cls, Library) else []


def _any_version(text: str) -> Value:
    """A word for a field whose type is not in the table."""
    if text.lower() in {"true", "false"}:
        return Constant(text.lower() == "true")
    whole = to_int(text)
    number = whole if whole is not None else to_float(text)
    return Constant(number if number is not None else text)


def flags_of(interpreter: Interpreter, field: Field, call: Call) -> list[Argument]:
    """The flag of a field, and ``--no_x`` for one that is on."""
    names = [f"--{field.name}"]
    if "_" in field.name:
        names.append(f"--{field.name.replace('_', '-')}")
    options = dict(field.metadata(interpreter))
    aliases = options.pop("aliases", None)
    listed = interpreter.listed(aliases)[0] if isinstance(aliases, Container) else [aliases]
    names += [plain for alias in listed if isinstance(plain := constant_of(alias), str)]
    kept = {name: value for name, value in options.items() if name in {"nargs", "const", "choices", "action"}}
    kind = _single(field.kind)
    default = constant_of(field.default, call)
    argument = Argument(names, Declaration(call, kept))
    argument.field = field
    if kind.name in {"literal", "enum"}:
        choices = kind.choices if kind.name == "literal" else enum_values(interpreter, kind.cls)
        if choices is None:
            argument.convert = str
        else:
            by_text = {str(choice): choice for choice in choices}
            kept["choices"] = interpreter.container("list", [Constant(choice) for choice in choices])
            argument.convert = lambda text: by_text.get(text, text)
    elif kind.name == "bool" or (kind.optional and kind.inner.name == "bool"):
        argument.convert = to_bool
        if kind.name == "bool" or default is not None or field.library:  # of a library it is a plain bool in other versions
            kept.setdefault("nargs", Constant("?"))
            kept.setdefault("const", TRUE)
        if field.default is None:
            argument.field = Field(field.name, field.kind, FALSE, field.declared, field.node)
    elif kind.name == "list":
        kept.setdefault("nargs", Constant("+"))
        argument.convert = _converter(kind.parts[0] if kind.parts else ANY)
    else:
        argument.convert = _converter(kind)
    if argument.field is field and field.default is None:
        kept["required"] = TRUE
    found = [argument]
    if default is True and argument.convert is to_bool:
        dashed = f"--no-{field.name.replace('_', '-')}"
        options = {"action": Constant("store_false"), "dest": Constant(field.name)}
        found.append(Argument([f"--no_{field.name}", dashed], Declaration(call, options)))
        found[-1].field = field
    return found


def _single(kind: Kind) -> Kind:
    """The one type of a union that the parser converts to."""
    if kind.name != "union":
        return kind
    names = [part.name for part in kind.parts]
    if "none" not in names:
        others = [part for part in kind.parts if part.name != "str"]
        return others[0] if others and names[1:2] == ["str"] else kind.parts[1] if names[1:2] != ["str"] else kind.parts[0]
    if "bool" in names:
        return kind
    return kind.parts[0] if names[1:2] == ["none"] else kind.parts[1]


def _converter(kind: Kind) -> Any:  # noqa: ANN401 - a function of a word
    if kind.name == "bool":
        return bool
    if kind.name in _NUMBERS:
        return _NUMBERS[kind.name]

    def anything(_text: str) -> Value:
        return Unknown(kind="flag")

    return anything


def to_bool(text: str) -> bool:
    """A truth as HfArgumentParser reads it."""
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise argparse.ArgumentTypeError(
        f"Truthy value expected: got {text} but expected one of yes/no, true/false, t/f, y/n, 1/0 (case insensitive)."
    )


def enum_values(interpreter: Interpreter, cls: Value | None) -> tuple[Any, ...] | None:
    """The values of the members of an enumeration of the program."""
    members = enum_members(interpreter, cls)
    values = [constant_of(value, interpreter) for value in members.values()]
    return None if not values or interpreter in values else tuple(values)


def enum_members(interpreter: Interpreter, cls: Value | None) -> dict[str, Value]:
    """The members of an enumeration of the program with their values, by name."""
    import ast

    found: dict[str, Value] = {}
    for statement in cls.node.body if isinstance(cls, Class) else ():
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            value = interpreter.store.get(cls, name)
            if isinstance(value, Value) and not name.startswith("_"):
                found[name] = value
    return found


def build_dataclass(
    interpreter: Interpreter, cls: Value, values: dict[str, Value], call: Call, *, complete: bool = True
) -> Value:
    """An object of a dataclass of the program or of a library."""
    if isinstance(cls, Class):
        return interpreter.instantiate(cls, [], values, call.node, complete=complete)
    if isinstance(cls, Library):
        return interpreter.call_library(cls.name, [], values, call.node, complete=complete)
    return Unknown()


def _objects(interpreter: Interpreter, call: Call, namespace: Container) -> list[Value]:
    """One object for each dataclass, then a namespace of the flags that no dataclass has."""
    types = interpreter.store.get(call.receiver, "(types)")
    content = dict(interpreter.items(namespace))
    is_open = bool(interpreter.store.get(namespace, "open"))
    made: list[Value] = []
    used: set[str] = set()
    for cls in interpreter.listed(types)[0] if isinstance(types, Container) else []:
        fields = fields_in(interpreter, cls) if isinstance(cls, (Class, Library)) else []
        names = [field.name for field in fields if field.init]
        older = _older_fields(cls)
        names += [name for name in older if isinstance(content.get(name), Constant) and name not in names]
        used |= set(older)
        values = {name: content[name] for name in names if name in content}
        used |= set(names)
        made.append(build_dataclass(interpreter, cls, values, call, complete=not is_open or bool(fields)))
    rest = {name: value for name, value in content.items() if name not in used}
    if rest:
        made.append(interpreter.container("namespace", rest, call.node))
    return made


@models(
    "transformers.HfArgumentParser.parse_args_into_dataclasses",
    "transformers.HfArgumentParser.parse_args_and_config",
    "transformers.HfArgumentParser.parse",
)
def parse_into_dataclasses(interpreter: Interpreter, call: Call) -> Value:
    """The command line as objects; of trl's parser a config file below it."""
    spec = spec_of(interpreter, call.receiver) or ParserSpec()
    if not isinstance(interpreter.store.get(call.receiver, "(types)"), Container):
        return Unknown()
    words = words_of(interpreter, call.argument(0, "args"))
    from_config: list[Value] = []
    if call.method != "parse_args_into_dataclasses" and words is not None:
        words, from_config = _config_below(interpreter, spec, words, call)
    rest_wanted = constant_of(call.argument(1, "return_remaining_strings"), False) is True
    namespace, rest = parse_words(interpreter, spec, words, call, known_only=True)
    texts = [str(constant_of(word)) for word in rest]
    if rest and not rest_wanted and spec.known:
        message = f"Some specified arguments are not used by the HfArgumentParser: {texts}"
        refuse(interpreter, spec, call, message, [text for text in texts if text.startswith("-")])
    made = _objects(interpreter, call, namespace)
    if rest_wanted:
        made.append(interpreter.container("list", [*from_config, *rest], is_open=words is None))
    return interpreter.container("tuple", made, call.node) if call.method != "parse" or len(made) != 1 else made[0]


def _config_below(
    interpreter: Interpreter, spec: ParserSpec, words: list[tuple[str, Value]], call: Call
) -> tuple[list[tuple[str, Value]], list[Value]]:
    """``--config file.yaml`` and the plain ``file.yaml`` of alignment-handbook: its values are the defaults of the flags."""
    texts = [text for text, _ in words]
    path: str | None = None
    if "--config" in texts[:-1]:
        position = texts.index("--config")
        path, words = texts[position + 1], [*words[:position], *words[position + 2 :]]
    elif call.method == "parse" and texts and texts[0].endswith((".yaml", ".yml")):
        path, words = texts[0], words[1:]
    if path is None:
        return words, []
    config = config_value(interpreter, path, numbers=False, attributes=False)
    left: list[Value] = []
    if not isinstance(config, Container) or config.kind != "dict":
        spec.known = False
        return words, left
    for argument in spec.arguments:
        if not argument.dest:
            argument.dest = argument.names[0].lstrip("-").replace("-", "_")
    known = {argument.dest: argument for argument in spec.arguments}
    for name, value in interpreter.entries(config).items():
        if name in known:
            spec.defaults[name] = value
            known[name].call.keywords.pop("required", None)
        elif name == "env":
            for variable, text in interpreter.entries(value).items():
                interpreter.store.set("os.environ", ("item", variable), text)
        else:
            left += [Constant(f"--{name}"), value]
            strict = constant_of(call.argument(2, "fail_with_unknown_args"), True) is True
            if spec.known and strict and call.method == "parse_args_and_config":
                message = f"Unknown arguments from config file: ['--{name}', ...]."
                refuse(interpreter, spec, call, message, [f"--{name}"])
    return words, left


@models(
    "transformers.HfArgumentParser.parse_dict",
    "transformers.HfArgumentParser.parse_json_file",
    "transformers.HfArgumentParser.parse_yaml_file",
    "transformers.HfArgumentParser.parse_yaml_and_args",
)
def parse_file(interpreter: Interpreter, call: Call) -> Value:
    """A dictionary or a config file as objects; nothing is converted."""
    given = call.argument(0, "args") or call.argument(0, "json_file") or call.argument(0, "yaml_file")
    if call.method != "parse_dict":
        path = path_text(given)
        given = config_value(interpreter, path, numbers=False, attributes=False) if path is not None else None
    types = interpreter.store.get(call.receiver, "(types)")
    if not isinstance(types, Container):
        return Unknown()
    known = isinstance(given, Container) and given.kind in {"dict", "config"}
    content = dict(interpreter.entries(given)) if known else {}
    complete = isinstance(given, Container) and known and not interpreter.store.get(given, "open")
    made, used = [], set[str]()
    certain = complete
    for cls in interpreter.listed(types)[0]:
        fields = fields_in(interpreter, cls) if isinstance(cls, (Class, Library)) else []
        values = {field.name: content[field.name] for field in fields if field.init and field.name in content}
        libraries = _libraries_of(cls)
        if any(name.startswith(("transformers.", "trl.")) for name in libraries):
            values.update({name: content[name] for name in _older_fields(cls) if name in content})
            certain &= not any(name.startswith("trl.") and not field_table(name) for name in libraries)
        certain &= bool(fields)
        used |= set(values)
        if complete:
            for field in fields:
                if field.init and field.name not in values and field.default is not None:
                    values[field.name] = defaulted(field, field.name, call)
        made.append(build_dataclass(interpreter, cls, values, call, complete=complete))
    extra = sorted(name for name in content if name not in used and isinstance(name, str))
    if extra and certain and not constant_of(call.argument(1, "allow_extra_keys"), False):
        refuse(interpreter, ParserSpec(), call, f"Some keys are not used by the HfArgumentParser: {extra}", extra)
    return interpreter.container("tuple", made, call.node)


@models("transformers.HfArgumentParser.add_argument", "transformers.HfArgumentParser.add_argument_group")
def add_argument(interpreter: Interpreter, call: Call) -> Value:
    """A flag beside those of the dataclasses."""
    from crashcart.readers.interpreter.libraries import argparse_parser

    made: Value = (argparse_parser.add_argument if call.method == "add_argument" else argparse_parser.add_group)(
        interpreter, call
    )
    return made


@models(
    "transformers.HfArgumentParser.parse_args",
    "transformers.HfArgumentParser.parse_known_args",
    "transformers.HfArgumentParser.set_defaults",
    "transformers.HfArgumentParser.print_help",
    "transformers.HfArgumentParser.format_help",
)
def as_argparse(interpreter: Interpreter, call: Call) -> Value:
    """What it has of argparse."""
    from crashcart.readers.interpreter.libraries import argparse_parser

    if call.method == "set_defaults":
        return argparse_parser.set_defaults(interpreter, call)  # type: ignore[no-any-return]
    if call.method.startswith("parse"):
        return argparse_parser.parse_args(interpreter, call)  # type: ignore[no-any-return]
    return Constant(None)
