"""accelerate, transformers, Lightning: objects that run a training, and the code of the program that they call while they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.numbers import to_float, to_int
from crashcart.readers.interpreter.libraries import attributes, models
from crashcart.readers.interpreter.libraries.enumerations import refuse_other_members
from crashcart.readers.interpreter.libraries.field_types import defaulted, fields_in
from crashcart.readers.interpreter.libraries.rank_starters import start_ranks
from crashcart.readers.interpreter.libraries.torch_library import inner_model, mark_models, read_sample
from crashcart.readers.interpreter.store import NONE
from crashcart.readers.interpreter.trace import Call
from crashcart.readers.interpreter.values import (
    Class,
    Constant,
    Container,
    Instance,
    Library,
    Result,
    Unknown,
    Value,
    constant_of,
    origins_of,
    tags_of,
)

if TYPE_CHECKING:
    import ast

    from crashcart.readers.interpreter.interpreter import Interpreter


# ---- accelerate


@models("accelerate.Accelerator", "accelerate.PartialState", "lightning.fabric.Fabric", "lightning.Fabric")
def accelerator(interpreter: Interpreter, call: Call) -> Value:
    """An accelerator keeps the settings it was made with."""
    made = Result(call.name, call, origins=origins_of(*call.arguments, *call.keywords.values()))
    if call.method == "Fabric":
        start_ranks(interpreter, call)
    steps = call.argument(3, "gradient_accumulation_steps")
    if steps is not None and call.method == "Accelerator":
        interpreter.store.set(made, "gradient_accumulation_steps", steps)
    return made


@models("lightning.Fabric.launch", "lightning.fabric.Fabric.launch")
def fabric_launch(interpreter: Interpreter, call: Call) -> Value:
    """``fabric.launch(main, lr)`` calls ``main(fabric, lr)`` on every rank."""
    function = call.argument(0, "function")
    if function is None or isinstance(function, Constant):
        return NONE
    keywords = {name: value for name, value in call.keywords.items() if name != "function"}
    return interpreter.call(
        function, [call.receiver or Unknown(), *call.arguments[1:]], keywords, call.node, complete=call.complete
    )


@models(
    "accelerate.Accelerator.prepare",
    "lightning.fabric.Fabric.setup",
    "lightning.Fabric.setup",
    "lightning.Fabric.setup_dataloaders",
    "lightning.fabric.Fabric.setup_dataloaders",
    "accelerate.Accelerator.prepare_model",
    "accelerate.Accelerator.prepare_data_loader",
    "accelerate.Accelerator.prepare_optimizer",
    "accelerate.Accelerator.prepare_scheduler",
    "lightning.Fabric.setup_module",
    "lightning.Fabric.setup_optimizers",
)
def prepare(interpreter: Interpreter, call: Call) -> Value:
    """What is handed over comes back, wrapped."""
    if len(call.arguments) == 1 and call.complete:
        return call.arguments[0]
    return interpreter.container("tuple", call.arguments, call.node, is_open=not call.complete)


@models(
    "accelerate.Accelerator.unwrap_model",
    "accelerate.Accelerator.free_memory",
    "accelerate.Accelerator.gather",
    "accelerate.Accelerator.gather_for_metrics",
    "accelerate.Accelerator.reduce",
    "accelerate.Accelerator.pad_across_processes",
    "lightning.LightningModule.all_gather",
)
def through(_interpreter: Interpreter, call: Call) -> Value:
    """What is handed over, or what all ranks have of it."""
    value = call.argument(0)
    if call.method == "unwrap_model":
        found = inner_model(value)
        return found if found is not None else Unknown()
    return Unknown(tags_of(value) | {"agreed"} - {"graph"}, origins_of(value)) if value is not None else NONE


@models("accelerate.Accelerator.on_main_process", "accelerate.Accelerator.on_local_main_process")
def on_main(interpreter: Interpreter, call: Call) -> Value:
    """A function that only rank 0 runs."""
    from crashcart.readers.interpreter.values import Function

    function = call.argument(0)
    if isinstance(function, Function) and call.name not in function.decorators:
        function.decorators = (*function.decorators, call.name)
    return function if function is not None else Unknown()


# ---- transformers


@models(
    "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainingArguments",
    *(
        f"trl.{name}"
        for name in (
            "SFTConfig", "DPOConfig", "GRPOConfig", "PPOConfig", "RewardConfig", "KTOConfig", "ORPOConfig", "CPOConfig", "RLOOConfig",
            "PRMConfig", "OnlineDPOConfig", "GKDConfig", "BCOConfig", "XPOConfig", "NashMDConfig",
        )
    ),
)  # fmt: skip
def training_arguments(interpreter: Interpreter, call: Call) -> Value:
    """The arguments of a training; each is an attribute, also those that have their default."""
    made = Result("transformers.TrainingArguments", call, origins=origins_of(*call.keywords.values()))
    for name, value in call.keywords.items():
        interpreter.store.set(made, name, value)
    fields = fields_in(interpreter, Library(call.name))
    for field, value in zip(fields, call.arguments, strict=False):
        interpreter.store.set(made, field.name, value)
    if call.complete:
        for field in fields[len(call.arguments) :]:
            if field.name not in call.keywords and field.default is not None:
                interpreter.store.set(made, field.name, defaulted(field, field.name, call))
    settle_training_arguments(interpreter, made)
    refuse_other_members(interpreter, made, call.name, call.node)
    return made


@models("transformers.TrainingArguments.__post_init__", "transformers.Seq2SeqTrainingArguments.__post_init__")
def check_training_arguments(interpreter: Interpreter, call: Call) -> Value:
    """``super().__post_init__()`` in a class of the program."""
    if isinstance(call.receiver, Instance):
        refuse_other_members(interpreter, call.receiver, "", call.node)
    return Constant(None)


def settle_training_arguments(interpreter: Interpreter, made: Value) -> None:
    """What ``__post_init__`` of TrainingArguments makes of values that nobody gave."""
    for name, settled in _SETTLED.items():
        value = interpreter.peek(made, name)
        if isinstance(value, Constant) and value.value in {None, "", "none"}:
            interpreter.store.set(made, name, Constant(settled, value.origins) if settled is not None else Unknown())


_SETTLED: dict[str, str | bool | None] = {
    "output_dir": "trainer_output", "gradient_checkpointing": False, "activation_checkpointing": False,
    "disable_tqdm": None, "report_to": None, "debug": None, "accelerator_config": None,
}  # fmt: skip


@models("trl.ModelConfig", "trl.ScriptArguments", "trl.DPOScriptArguments")
def library_dataclass(interpreter: Interpreter, call: Call) -> Value:
    """A dataclass of a library; each field is an attribute."""
    made = Result(call.name, call, origins=origins_of(*call.keywords.values()))
    for field in fields_in(interpreter, Library(call.name)):
        if field.name not in call.keywords and call.complete and field.default is not None:
            interpreter.store.set(made, field.name, defaulted(field, field.name, call))
    for name, value in call.keywords.items():
        interpreter.store.set(made, name, value)
    return made


@models("?.from_pretrained")
def own_model(interpreter: Interpreter, call: Call) -> None:
    """A model of the program's own that transformers makes: its ``__init__`` gets the config and what the library does not take."""
    cls = call.receiver
    if not isinstance(cls, Class) or not any(name.startswith("transformers.") for name in cls.library_bases()):
        return
    method = interpreter._find_method(cls, "__init__")
    if method is None or interpreter.quiet:
        return
    names = [*method.node.args.args, *method.node.args.kwonlyargs]
    wanted = {parameter.arg for parameter in names} | ({*call.keywords} - _LOADING if method.node.args.kwarg else set())
    keywords = {name: value for name, value in call.keywords.items() if name in wanted and name != "config"}
    config = call.keywords.get("config") or Unknown()
    interpreter.instantiate(cls, [config, *call.arguments[1:]], keywords, call.node, complete=False)


_LOADING = frozenset(
    [
        "attn_implementation",
        "cache_dir",
        "device_map",
        "dtype",
        "force_download",
        "from_tf",
        "ignore_mismatched_sizes",
        "load_in_4bit",
        "load_in_8bit",
        "local_files_only",
        "low_cpu_mem_usage",
        "quantization_config",
        "revision",
        "subfolder",
        "token",
        "torch_dtype",
        "trust_remote_code",
        "use_auth_token",
        "use_safetensors",
        "variant",
    ]
)


@models(
    "transformers.Trainer",
    "transformers.Seq2SeqTrainer",
    "trl.SFTTrainer",
    "trl.DPOTrainer",
    "trl.GRPOTrainer",
    "trl.RewardTrainer",
)
def hf_trainer(interpreter: Interpreter, call: Call) -> Value:
    """A trainer; it is not made to evaluate without a data set for that."""
    settings = call.argument(1, "args")
    is_plain = call.name in {"transformers.Trainer", "transformers.Seq2SeqTrainer"}
    if (
        is_plain
        and call.complete
        and settings is not None
        and constant_of(call.argument(4, "eval_dataset", NONE), "") is None
    ):
        for name in ("eval_strategy", "evaluation_strategy"):
            when = interpreter.peek(settings, name)
            if when is not None and constant_of(when) in {"steps", "epoch"}:
                says = f"{name} is {constant_of(when)}, and the trainer gets no eval_dataset"
                interpreter.fail(call.node, "ValueError", says, when, choices=("no",))
    return Result("transformers.Trainer", call, origins=origins_of(*call.keywords.values()))


@attributes("transformers.Trainer.args", "transformers.Trainer.model")
def trainer_part(_interpreter: Interpreter, _owner: Value) -> Value:
    """What a trainer was given."""
    return Unknown()


@models("transformers.Trainer.train", "transformers.Trainer.evaluate", "transformers.Trainer.predict")
def hf_train(interpreter: Interpreter, call: Call) -> Value:
    """A trainer reads its data and calls the program's own hooks."""
    trainer = call.receiver
    made = trainer.call if isinstance(trainer, (Result, Instance)) else None
    if trainer is None or made is None or interpreter.quiet:
        return Unknown()
    if interpreter.store.get(trainer, f"({call.method})") is not None:
        return Unknown()
    interpreter.store.set(trainer, f"({call.method})", True)
    name = "train_dataset" if call.method == "train" else "eval_dataset"
    dataset = made.keywords.get(name)
    sample = (
        read_sample(interpreter, trainer, dataset, call.node)
        if isinstance(dataset, Instance)
        else Unknown(frozenset({"tensor", "data"}))
    )
    collator = made.keywords.get("data_collator")
    with interpreter.inside("loop", call.node, iterable=trainer):
        if isinstance(collator, Instance):
            with interpreter.inside("worker", call.node, value=trainer):
                interpreter.call(collator, [interpreter.container("list", [sample], is_open=True)], {}, call.node)
        hooks = (
            ("compute_loss", "training_step", "prediction_step", "evaluation_loop", "log")
            if isinstance(trainer, Instance)
            else ()
        )
        model = Unknown()
        interpreter.models.add(len(interpreter.callables))
        interpreter.callables.append((model, "?"))
        for hook in hooks:
            if isinstance(trainer, Instance) and interpreter._find_method(trainer.cls, hook) is not None:
                interpreter.call_method(trainer, hook, [model, Unknown(frozenset({"tensor", "data"}))], {}, call.node)
        steps_itself = isinstance(trainer, Instance) and interpreter._find_method(trainer.cls, "training_step") is not None
        if call.method == "train":
            if not steps_itself:
                interpreter.record(Call, call.node, "?.backward", [], {}, receiver=Unknown(frozenset({"tensor", "graph"})))
            interpreter.record(Call, call.node, "torch.optim.Optimizer.step", [], {}, receiver=Unknown())
        callbacks = made.keywords.get("callbacks")
        for callback in interpreter.listed(callbacks)[0] if callbacks is not None else ():
            if isinstance(callback, Instance):
                for hook in (
                    "on_step_end",
                    "on_evaluate",
                    "on_log",
                    "on_save",
                    "on_epoch_end",
                    "on_epoch_begin",
                    "on_step_begin",
                ):
                    state = Result("transformers.TrainerState", call)
                    arguments = made.keywords.get("args") or Result("transformers.TrainingArguments", call)
                    keywords = {"model": made.keywords.get("model") or Unknown()}
                    control = Result("transformers.TrainerControl", call)
                    interpreter.call_method(callback, hook, [arguments, state, control], keywords, call.node)
    metrics = made.keywords.get("compute_metrics")
    if metrics is not None and not isinstance(metrics, Constant):
        interpreter.call_back(metrics, [Unknown(frozenset({"tensor"}))], call.node)
    return Result("transformers.TrainOutput", call)


# ---- Lightning

SETTINGS = "(settings of a trainer)"
_LOGS_EVERY, _EPOCHS = 50, 1000  # steps and epochs, where the trainer was not told otherwise
_HOOKS_START = ("setup", "configure_model", "on_fit_start")
_HOOKS_BATCH = ("on_train_batch_start", "training_step", "on_before_optimizer_step", "optimizer_step", "on_train_batch_end")
_HOOKS_VALIDATION = ("on_validation_epoch_start", "on_validation_start")
_HOOKS_VALIDATED = ("on_validation_epoch_end", "on_validation_end", "validation_epoch_end")


@models("lightning.Trainer")
def lightning_trainer(interpreter: Interpreter, call: Call) -> Value:
    """A trainer keeps its settings."""
    start_ranks(interpreter, call)
    made = Result("lightning.Trainer", call, origins=origins_of(*call.keywords.values()))
    for name, value in call.keywords.items():
        if name != "strategy":  # as an attribute it is an object, whatever word it was made from
            interpreter.store.set(made, name, value)
    return made


_TRAINER_PARAMETERS = frozenset(
    [
        "accelerator", "accumulate_grad_batches", "amp_backend", "amp_level", "auto_lr_find", "auto_scale_batch_size", "auto_select_gpus", "automatic_optimization", "barebones", "benchmark",
        "callbacks", "check_val_every_n_epoch", "checkpoint_callback", "default_root_dir", "detect_anomaly", "deterministic", "devices",
        "distributed_backend", "early_stop_callback", "enable_checkpointing", "enable_pl_optimizer", "ipus", "log_gpu_memory",
        "log_save_interval", "multiple_trainloader_mode", "overfit_pct", "process_position", "stochastic_weight_avg",
        "test_percent_check", "tpu_cores", "train_percent_check", "val_percent_check", "enable_model_summary", "enable_progress_bar", "fast_dev_run",
        "flush_logs_every_n_steps", "gpus", "gradient_clip_algorithm", "gradient_clip_val", "inference_mode", "limit_predict_batches",
        "limit_test_batches", "limit_train_batches", "limit_val_batches", "log_every_n_steps", "logger", "max_epochs", "max_steps",
        "max_time", "min_epochs", "min_steps", "move_metrics_to_cpu", "num_nodes", "num_processes", "num_sanity_val_steps",
        "overfit_batches", "plugins", "precision", "prepare_data_per_node", "profiler", "progress_bar_refresh_rate",
        "reload_dataloaders_every_epoch", "reload_dataloaders_every_n_epochs", "replace_sampler_ddp", "resume_from_checkpoint",
        "row_log_interval", "strategy", "sync_batchnorm", "terminate_on_nan", "track_grad_norm", "truncated_bptt_steps", "use_distributed_sampler",
        "val_check_interval", "weights_save_path", "weights_summary",
    ]
)  # fmt: skip


# Those that are a whole number, or a number, in every version that makes flags of them (0.9 to 1.9).
_WHOLE = frozenset(
    [
        "check_val_every_n_epoch", "flush_logs_every_n_steps", "ipus", "log_every_n_steps", "log_save_interval", "max_epochs", "max_steps",
        "min_epochs", "min_steps", "num_nodes", "num_processes", "num_sanity_val_steps", "process_position", "progress_bar_refresh_rate",
        "reload_dataloaders_every_n_epochs", "row_log_interval", "truncated_bptt_steps",
    ]
)  # fmt: skip
_NUMBERS = frozenset(
    [
        "gradient_clip_val", "limit_predict_batches", "limit_test_batches", "limit_train_batches", "limit_val_batches", "overfit_batches",
        "val_check_interval",
    ]
)  # fmt: skip


@models("lightning.Trainer.from_argparse_args")
def trainer_of_flags(interpreter: Interpreter, call: Call) -> Value | None:
    """A trainer with the flags that are named as its parameters, and with what the call gives beside them."""
    args = call.argument(0, "args")
    if not isinstance(args, Container):
        return None
    flags = {
        name: value
        for name, value in interpreter.entries(args).items()
        if name in _TRAINER_PARAMETERS and constant_of(value, value) is not None
    }
    given = {name: value for name, value in call.keywords.items() if name != "args"}
    return interpreter.call_library("lightning.Trainer", [], {**flags, **given}, call.node, complete=call.complete)


@models("lightning.Trainer.add_argparse_args")
def add_trainer_flags(interpreter: Interpreter, call: Call) -> Value | None:
    """The parser with a flag for each parameter of the trainer, of whatever version."""
    from crashcart.readers.interpreter.libraries.argparse_parser import Argument, Declaration, plain_of, spec_of

    parser = call.argument(0, "parent_parser")
    spec = spec_of(interpreter, parser) if parser is not None else None
    if parser is None or spec is None:
        return None
    default: Value = NONE if interpreter.launch.arguments is not None else Unknown()  # where nobody said how it is started
    own = {spelling for argument in spec.every() for spelling in argument.names}
    for name in sorted(_TRAINER_PARAMETERS):
        options: dict[str, Value] = {"default": default}
        if name not in _WHOLE | _NUMBERS:
            options["nargs"] = Constant("?")
        argument = Argument([f"--{name}"], Declaration(call, options))
        argument.convert = int if name in _WHOLE else _number if name in _NUMBERS else plain_of
        if argument.names[0] not in own:
            spec.arguments.append(argument)
    return parser


def _number(text: str) -> float:
    """``1`` is one batch, and ``1.0`` all of them."""
    whole = to_int(text)
    number = to_float(text, finite=False) if whole is None else whole
    if number is None:
        raise ValueError(text)
    return number


def record_settings(interpreter: Interpreter, node: ast.AST, settings: dict[str, Value | None]) -> None:
    """Numbers that a trainer of a library works with, under their canonical names; None where one is not known."""
    interpreter.record(Call, node, SETTINGS, [], {name: value or Unknown() for name, value in settings.items()})


def _settle_trainer(interpreter: Interpreter, trainer: Value | None, *, validates: bool, call: Call) -> None:
    """What Lightning does where its trainer was not told otherwise."""
    made = trainer.call if isinstance(trainer, Result) else None
    if made is None or made.name != "lightning.Trainer" or not made.complete:
        return
    keywords, settings = made.keywords, dict[str, Value | None]()
    if "accumulate_grad_batches" not in keywords:
        settings["train.accumulation"] = Constant(1)
    if "log_every_n_steps" not in keywords and constant_of(keywords.get("logger")) is not False:
        settings["log.period"] = keywords.get("row_log_interval", Constant(_LOGS_EVERY))
    between = keywords.get("val_check_interval", NONE)
    epochs = keywords.get("check_val_every_n_epoch", Constant(1))
    if type(constant_of(between)) is int:
        settings["eval.period"] = between
    elif constant_of(between) in {None, 1.0} and validates:
        settings["eval.period_epochs"] = epochs
    elif not validates:
        settings["eval.strategy"] = Constant("no")
    if not {"max_epochs", "max_steps", "max_time", "fast_dev_run"} & keywords.keys():
        settings["train.epochs"] = Constant(_EPOCHS)
    callbacks = _listed(interpreter, keywords.get("callbacks"))
    saves = {name: value for callback in callbacks for name, value in _period_of_saves(callback, epochs)}
    is_off = any(constant_of(keywords.get(name)) is False for name in ("enable_checkpointing", "checkpoint_callback"))
    if not is_off:
        settings |= saves or {"save.period_epochs": Constant(1)}
    logger = keywords.get("logger", NONE)
    if isinstance(logger, Constant) and logger.value in {None, True}:
        settings["tracker.kind"] = Constant("tensorboard")
    elif constant_of(logger) is False or (isinstance(logger, Container) and not _listed(interpreter, logger)):
        settings["tracker.kind"] = Constant("none")
    record_settings(interpreter, call.node, settings)


def _listed(interpreter: Interpreter, value: Value | None) -> list[Value]:
    if isinstance(value, Container):
        return interpreter.listed(value)[0]
    return [] if value is None or isinstance(value, Constant) else [value]


def _period_of_saves(callback: Value, epochs: Value) -> list[tuple[str, Value | None]]:
    """How often a callback that saves does so: each epoch, or with each evaluation where it watches a result of it."""
    call = callback.call if isinstance(callback, (Result, Instance)) else None
    is_saving = isinstance(callback, Result) and callback.name.endswith(".ModelCheckpoint")
    if call is None or not (is_saving or (isinstance(callback, Instance) and callback.cls.is_a("ModelCheckpoint"))):
        return []
    named = {name: value for name, value in call.keywords.items() if constant_of(value, value) is not None}
    if "every_n_train_steps" in named:
        return [("save.period", named["every_n_train_steps"])]
    default = epochs if "monitor" in named else Constant(1)
    period = next((named[name] for name in ("every_n_epochs", "every_n_val_epochs", "period") if name in named), default)
    return [] if "train_time_interval" in named else [("save.period_epochs", period if call.complete else None)]


@models("lightning.Trainer.fit", "lightning.Trainer.validate", "lightning.Trainer.test")
def lightning_fit(interpreter: Interpreter, call: Call) -> Value:
    """Lightning calls the hooks of model, data module and callbacks in its order."""
    trainer, model = call.receiver, call.argument(0, "model")
    if interpreter.quiet or model is None:
        return NONE
    loaders = call.argument(1, "train_dataloaders") or call.argument(1, "train_dataloader")
    data = call.argument(3, "datamodule") or (
        loaders if isinstance(loaders, Instance) and loaders.cls.is_a("LightningDataModule") else None
    )
    owners = [each for each in (data, model) if isinstance(each, Instance)]
    callbacks = trainer.argument(None, "callbacks") if isinstance(trainer, Result) else None
    listed = (
        interpreter.listed(callbacks)[0]
        if isinstance(callbacks, Container)
        else [callbacks]
        if callbacks is not None
        else []
    )
    watchers = [each for each in listed if isinstance(each, Instance)]
    if trainer is not None:
        for owner in owners:
            interpreter.store.set(owner, "trainer", trainer)
    with (
        interpreter.inside("rank", call.node, side="first")
        if interpreter.launch.ranks != 1
        else interpreter.inside("call", call.node)
    ):
        for owner in owners:
            interpreter.call_method(owner, "prepare_data", [], {}, call.node)
    for owner in owners:
        for hook in _HOOKS_START:
            interpreter.call_method(owner, hook, [Constant("fit")] if hook == "setup" else [], {}, call.node)
    if call.method != "fit":
        name = "val_dataloader" if call.method == "validate" else "test_dataloader"
        loader = _loader(interpreter, owners, name, call.argument(1, "dataloaders"), call)
        _validate(interpreter, model, watchers, loader, trainer, call)
        return NONE
    optimizers = interpreter.call_method(model, "configure_optimizers", [], {}, call.node)
    if optimizers is not None:
        interpreter.store.set(model, "(optimizers)", optimizers)
    trains = _loader(interpreter, owners, "train_dataloader", loaders, call)
    validates = _loader(interpreter, owners, "val_dataloader", call.argument(2, "val_dataloaders"), call)
    may_validate = validates is not None or not isinstance(model, Instance) or (data is not None and data not in owners)
    may_validate |= any(interpreter._find_method(each.cls, "val_dataloader") is not None for each in owners)
    _settle_trainer(interpreter, trainer, validates=may_validate, call=call)
    with interpreter.inside("loop", call.node, iterable=trainer):
        _hooks(interpreter, [model, *watchers], ("on_train_epoch_start", "on_epoch_start"), trainer, call)
        with interpreter.inside("loop", call.node, iterable=trains):
            batch = _draw(interpreter, trains, call)
            if isinstance(model, Instance):
                _learn_models(interpreter, model, batch, call)
            for hook in _HOOKS_BATCH:
                given = [batch, Unknown(frozenset({"loop"}))] if hook == "training_step" else [batch] * 4
                result = interpreter.call_method(model, hook, given, {}, call.node)
                if hook == "training_step" and constant_of(interpreter.peek(model, "automatic_optimization"), True) is True:
                    mark_models(interpreter, result)
                    interpreter.record(Call, call.node, "?.backward", [], {}, receiver=result or Unknown())
                    interpreter.record(
                        Call, call.node, "torch.optim.Optimizer.step", [], {}, receiver=optimizers or Unknown()
                    )
                for watcher in watchers:
                    interpreter.call_method(watcher, hook, [trainer or Unknown(), model, *[Unknown()] * 3], {}, call.node)
        _validate(interpreter, model, watchers, validates, trainer, call)
        _hooks(interpreter, [model, *watchers], ("on_train_epoch_end", "training_epoch_end", "on_epoch_end"), trainer, call)
    _hooks(interpreter, [model, *watchers], ("on_train_end", "on_fit_end"), trainer, call)
    return NONE


def _draw(interpreter: Interpreter, loader: Value | None, call: Call) -> Value:
    """What a round of a loop over a loader gets."""
    if loader is None:
        return Unknown(frozenset({"tensor", "data"}))
    with interpreter.inside("feed", call.node):
        return interpreter.element(loader, call.node)


def _learn_models(interpreter: Interpreter, model: Instance, batch: Value, call: Call) -> None:
    """Follow a training step quietly and undo it, to see what gives the loss that goes backward."""
    mark = len(interpreter.store.log)
    interpreter.quiet += 1
    mark_models(
        interpreter, interpreter.call_method(model, "training_step", [batch, Unknown(frozenset({"loop"}))], {}, call.node)
    )
    interpreter.quiet -= 1
    interpreter.store.undo(mark)


def _validate(
    interpreter: Interpreter,
    model: Value,
    watchers: list[Instance],
    loader: Value | None,
    trainer: Value | None,
    call: Call,
) -> None:
    with interpreter.inside("with", call.node, value=Result("torch.no_grad")):
        _hooks(interpreter, [model, *watchers], _HOOKS_VALIDATION, trainer, call)
        with interpreter.inside("loop", call.node, iterable=loader):
            batch = _draw(interpreter, loader, call)
            interpreter.call_method(model, "validation_step", [batch, Unknown(frozenset({"loop"}))], {}, call.node)
            for watcher in watchers:
                interpreter.call_method(
                    watcher, "on_validation_batch_end", [trainer or Unknown(), model, *[Unknown()] * 4], {}, call.node
                )
        _hooks(interpreter, [model, *watchers], _HOOKS_VALIDATED, trainer, call)


def _hooks(interpreter: Interpreter, owners: list[Value], names: tuple[str, ...], trainer: Value | None, call: Call) -> None:
    for owner in owners:
        for name in names:
            is_callback = isinstance(owner, Instance) and owner.cls.is_a("Callback")
            interpreter.call_method(owner, name, [trainer or Unknown(), owners[0]] if is_callback else [], {}, call.node)


def _loader(interpreter: Interpreter, owners: list[Instance], name: str, given: Value | None, call: Call) -> Value | None:
    if (
        given is not None
        and not isinstance(given, Constant)
        and not (isinstance(given, Instance) and given.cls.is_a("LightningDataModule"))
    ):
        if isinstance(given, Container):
            items, _ = interpreter.listed(given)
            return items[0] if items else given
        return given
    for owner in owners:
        own = interpreter.peek(owner, name)  # ``self.val_dataloader = self._val_dataloader``
        made = (
            interpreter.call(own, [], {}, call.node)
            if own is not None
            else interpreter.call_method(owner, name, [], {}, call.node)
        )
        if made is not None:
            items, _ = interpreter.listed(made) if isinstance(made, Container) else ([made], True)
            return items[0] if items else made
    return None


@models("lightning.LightningModule.save_hyperparameters", "lightning.LightningDataModule.save_hyperparameters")
def save_hyperparameters(interpreter: Interpreter, call: Call) -> Value:
    """The arguments of ``__init__`` become ``hparams``."""
    owner, frame = call.receiver, interpreter.frame
    if isinstance(owner, Instance) and frame.function is not None:
        node = frame.function.node.args
        names = [each.arg for each in (*node.posonlyargs, *node.args, *node.kwonlyargs) if each.arg != "self"]
        values = {name: value for name in names if isinstance(value := interpreter.store.get(frame, name), Value)}
        for value in list(values.values()):
            if len(values) == 1 and isinstance(value, Container) and value.kind in {"dict", "config", "namespace"}:
                values = dict(interpreter.items(value)) | values
        interpreter.store.set(owner, "hparams", interpreter.container("config", values))
    return NONE


@attributes("lightning.LightningModule.trainer", "lightning.LightningDataModule.trainer")
def module_trainer(_interpreter: Interpreter, _owner: Value) -> Value:
    """The trainer of a module before one is known."""
    return Result("lightning.Trainer")


@models("lightning.LightningModule.optimizers", "lightning.LightningModule.lr_schedulers")
def module_optimizers(interpreter: Interpreter, call: Call) -> Value:
    """The optimizers that the module configured."""
    found = interpreter.store.get(call.receiver, "(optimizers)") if call.receiver is not None else None
    return found if isinstance(found, Value) else Result("torch.optim.Optimizer", call)


@models(
    "lightning.LightningModule.manual_backward",
    "accelerate.Accelerator.backward",
    "lightning.Fabric.backward",
    "lightning.fabric.Fabric.backward",
)
def backward(interpreter: Interpreter, call: Call) -> Value:
    """Gradients are made."""
    mark_models(interpreter, call.argument(0))
    interpreter.record(Call, call.node, "?.backward", [], {}, receiver=call.argument(0) or Unknown())
    return NONE
