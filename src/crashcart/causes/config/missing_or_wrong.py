"""A file, key, path or argument of the settings is missing, unknown, or contradicts another.

What happens: the program stops within seconds of its start, before the first step, while it reads its settings or builds
what they name. More rarely it starts and ends too early, because two limits contradict and the smaller one wins.

Why: the config belongs to another version of the program; a key was renamed; a path is relative to another folder; an option
is misspelt; two options exclude each other; a default (10 epochs) ends the run before the limit that you set (10000 steps).

How it shows: ``Key 'x' is not in struct``, ``unrecognized arguments``, ``the following arguments are required``, ``is not in
the ... registry``, ``mapping values are not allowed here``, ``requires the save and eval strategy to match``, ``No such file
or directory: 'config.yaml'``; a progress bar that stops at 47 % while the tracker closes in good order.

What to do: print the settings as the program holds them, and compare with the version of the config that belongs to this
code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from crashcart.cause import Stack, compiled, decisive, strong, weak
from crashcart.causes.config._foreseen import foreseen, mended
from crashcart.causes.config._where import SETTINGS, trained
from crashcart.deaths import first, order
from crashcart.log import evidence
from crashcart.model import Experiment, Fix, Sign
from crashcart.numbers import to_int
from crashcart.places import SETTINGS_AT_PLACE, is_own, of_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.case import Case
    from crashcart.flight import Event
    from crashcart.log import Line, Raised
    from crashcart.model import Fact, Strength

title = "A setting, key or path is missing, unknown or conflicts with another"
lasting = True
alike = ("code/bug", "code/version")
SETTINGS_FILE = r"[^\s'\"]{1,200}\.(?:ya?ml|json|cfg|toml|ini|gin|conf|hocon|jsonnet|names|data)\b"
WEIGHTS = r"\.(?:pth?|ckpt|bin|safetensors|h5|tar|pkl|t7|weights|onnx|model|spm)['\"]?\s*$"
LOADER = r"__getitem__|_utils/(?:fetch|worker|collate)\.py|collate"
SAVING = (
    r"\bsave\w*\b|tmp-checkpoint|os\.rename|checkpoint-\d+' ->|\.incomplete|\.lock\b|huggingface/(?:hub|datasets)|"
    r"/proc/|/tmp/|/dev/"
)
CLOSED = (
    "you can sync this run",
    "wandb: find logs at",
    "wandb: synced",
    "wandb: view run",
    "wandb: 🚀 view run",
    "run summary:",
    "comet info: uploading",
)
STOPPED_EARLY = r"early.?stop|patience|keyboardinterrupt|interrupted|signal|terminated|time.?limit|nan\b"

ASSERTS_PATH = r"^assert\s{1,20}.{0,80}(?:os\.path\.(?:exists|isfile|isdir)\(|\.(?:exists|is_file|is_dir)\(\))"
USAGE = r"(?:\[|^\s{2,20})(--[\w.-]{1,80})"
REFUSED = r"(?:unrecognized (?:argument|option)s|no such option|unknown option)s?:?\s{0,4}(.{1,400})"
MOST_REFUSED = 8
SHORTEST_NAME, LONGEST_MESSAGE = 2, 300
REFUSES = r"unknown|unsupported|invalid|unrecogni[sz]ed|no such|one of|choose|available|options|\bnot (?:supported|implemented|valid|known|registered|a|an|in)\b"
# What programs raise for a name that they do not have.
OWN_REFUSALS = frozenset({"ValueError", "NotImplementedError", "LookupError", "AssertionError", "RuntimeError", "Exception"})
BAR = r"\b(\d{1,12})/(\d{1,12}) \["

phrases = (
    decisive(
        "extra inputs are not permitted", "extra fields not permitted", "unexpected keys in config", '" is not expected',
        "is not in struct", "missing mandatory value", "could not override '", "interpolation key '",
        "cannot find primary config", "lexernoviablealt", "no viable alternative at input", "configcompositionexception",
        "missingconfigexception", "omegaconf.errors.missing", "omegaconf.errors.config", "non-existent config key",
        "is not a valid config key", "not a valid key in", "configuration check failed",
        "is required but not included in config", "unexpected key in config", "unknown config key",
        "in your config search path",
        says="a config key is missing or unknown",
    ),
    decisive("': could not find '", "': could not load '", says="Hydra cannot find a part of the config",
             pattern=r"In '[^']+': Could not (?:find|load) '"),
    strong(
        "error: unrecognized arguments", "the following arguments are required", "not used by the hfargumentparser",
        "conflicting option string", "error: ambiguous option", "unexpected extra argument", "error: no such option",
        "missing option '-", "unknown command line flag", "unrecognized arguments:", "unrecognized options:",
        says="the command line does not match the program's options",
    ),
    strong("doesn't exist. it provides", "doesn't exist. did you mean", "doesn't exist in namespace", "namenotfound", "versionnotfound",
           says="the settings name an environment that is not registered",
           pattern=r"(?:NameNotFound|VersionNotFound|NamespaceNotFound)\b|Environment .{0,120}doesn't exist"),
    strong("not an attribute that exists", "not a valid option", "no such setting", "unknown setting", "unknown key", "unknown option",
           "unexpected option", "invalid key", says="the program has no setting with that name",
           pattern=r"Error\b.{0,300}(?:not an? (?:attribute|valid option)|no such setting|unknown (?:setting|key|option)|unexpected option|invalid key)"),
    decisive("invalid choice:", says="the option does not accept that value", pattern=r"argument [^:]{1,200}: invalid choice"),
    strong("expected one argument", "expected at least one argument", "expected 1 argument", says="an option has no value",
           pattern=r"argument [^:]{1,200}: expected"),
    decisive(
        "extra inputs are not permitted", "field required [type=missing", "extra fields not permitted",
        "field required (type=value_error", "additional properties are not allowed", "is a required property",
        "got an unexpected config key",
        says="a validator reports a missing or unknown setting",
    ),
    decisive(
        "yaml.scanner.scannererror", "yaml.parser.parsererror", "yaml.constructor.constructorerror",
        "mapping values are not allowed here", "that cannot start any token", "could not find expected ':'",
        "expecting property name enclosed in double quotes", "tomldecodeerror", "while parsing a block mapping",
        "nosectionerror", "nooptionerror", "missingsectionheadererror",
        says="the config file cannot be parsed",
    ),
    decisive(
        "registry", says="the config names something that is not registered",
        pattern=r"is not in the [\w:.\s]{1,60} registry|No object named '[^']{1,200}' found in '[^']{1,200}' registry|is not registered|"
                r"not found in registry|"
        r"Unregistered .{0,200} registry|Cannot find .{0,200} in registry",
    ),
    decisive("is not registered! available", "unknown model (", "unsupported model type", "unknown dataset",
             "unknown optimizer",
             "unknown scheduler", "unrecognized model in", "unrecognized configuration class",
             says="the settings name something that the program does not have"),
    decisive(
        "load_best_model_at_end requires", "requires the save and eval strategy",
        "to be a round multiple of the evaluation", "cannot use both", "you cannot set both", "are mutually exclusive",
        "can be true, but not both", "at most one of", "but not both", "only one of",
        "not allowed with argument", "cannot be used together", "can't be used together", "must be specified together",
        "cannot be enabled at the same time", "cannot be both", "your setup doesn't support bf16", "--tf32 requires",
        "requires a deepspeed config", "evaluation requires eval_dataset", "but you didn't pass an `eval_dataset`",
        "please correct the following deepspeed config values", "but there are no val",
        says="two settings conflict",
        unless=r"UserWarning|machine only has|SLURM|(?:[Oo]nly|[Mm]ost) one of(?! .{2,60}(?:can|may|must|should|is allowed|but not))",
    ),
    decisive("deepspeed config", says="DeepSpeed's config and the trainer's arguments differ",
             pattern=r"Please correct the following DeepSpeed config"),
    strong("misconfigurationexception", says="the framework rejects the settings"),
    # Python's own sentence for every Enum; transformers adds the names that it knows.
    strong("is not a valid ", says="a setting is not one of the allowed values",
           pattern=r"ValueError: (?:'[^'\n]{0,200}'|\w{1,100}) is not a valid (?:[a-z_]\w{0,60}\.)?[A-Z]\w{0,60}(?:$|, please select)"),
    strong("invalid learning rate:", "invalid momentum value", "invalid beta parameter", "invalid weight_decay value",
           "invalid epsilon value",
           "must be divisible by num_heads", "must be divisible by the number of heads", "is not divisible by num_heads",
           "hidden size",
           says="a setting has an impossible value",
           pattern=r"Invalid (?:learning|momentum|beta|weight_decay|epsilon)|divisible by (?:num_heads|the number of)|"
                   r"hidden size \(\d+\) is not a multiple"),
    strong(
        "is not a valid model identifier", "is not a local folder", "repo id must be in the form",
        "repo id must use alphanumeric", "incorrect path_or_model_id", "datasetnotfounderror",
        "couldn't find a dataset script", "dataset not found", "nonexistent paths", "missing paths", "gatedrepoerror",
        "you are trying to access a gated repo", "repositorynotfounderror", "revisionnotfounderror",
        "couldn't find any data file at", "no such config file", "config file does not exist", "error: file not found: ",
        "does not exist. please check", "couldn't find config", "can't load tokenizer for",
        "can't load the configuration of", "does not appear to have a file named", "unable to find latest file at",
        "can't load the model for", "invalid checkpoint path", "entrynotfounderror",
        says="a path or name in the settings does not exist", any_level=False,
        unless=r"will be ignored|optional|Starting (?:from scratch|fresh)",
    ),
    weak("object has no attribute", says="the settings have no such attribute",
         pattern=r"'(?:Namespace|EasyDict|AttrDict|DotDict|ConfigDict|CfgNode|Config|DictConfig|Munch|\w*(?:Arguments|Args|"
                 r"Config))' object has no attribute"),
)  # fmt: skip
stacks = (
    Stack(
        r"/argparse\.py:|/hydra/|/omegaconf/|/yaml/|jsonargparse/|/configargparse\.py|/fire/core\.py|/click/|pydantic/|draccus/|tyro/|mmengine/(?:config|registry)/|mmcv/utils/(?:config|registry)|detectron2/config|hf_argparser\.py",
        "the traceback ends where settings are read",
    ),
)


def in_log(case: Case) -> Iterator[Sign]:
    """Missing files and keys by what they are and when they were missed; a run that ends in order before its last step."""
    for raised in case.log.uncaught():
        told = _missed(case, raised)
        if told:
            yield Sign("strong", told, (evidence(raised.line),), order=raised.line.order)
    yield from _ended_early(case)


def _missed(case: Case, raised: Raised) -> str | None:
    where, code = raised.stack(3), raised.frames[-1].code if raised.frames else ""
    first = raised.message.split("\n", 1)[0]
    if raised.kind == "AssertionError" and compiled(ASSERTS_PATH).search(code) and not trained(case, raised):
        return "an assert in the program found that a path does not exist"
    if raised.kind in {"FileNotFoundError", "NotADirectoryError", "IsADirectoryError", "OSError", "RuntimeError"}:
        return _missing_file(case, raised, first)
    if raised.kind in {"KeyError", "AttributeError"} and raised.phase in {None, "start-up", "load", "train"}:
        if compiled(r"'(?:Namespace|EasyDict|AttrDict|DotDict|ConfigDict|CfgNode|Config|Munch)' object has no").search(
            first
        ):
            return "the settings lack something the program needs"
        if raised.kind == "KeyError" and compiled(SETTINGS).search(code) and not compiled(LOADER).search(where):
            return f"the settings have no key {first}"
    if raised.kind == "TypeError" and "unexpected keyword argument" in first:
        built = compiled(
            r"_instantiate|build_from_cfg|hydra|\*\*(?:\w+\.)*(?:args|cfg|config|kwargs_from_cfg|conf|opt)\w*"
        ).search(raised.stack(4))
        return "a config key is not an argument of the object it configures" if built else None
    return None


def _missing_file(case: Case, raised: Raised, first: str) -> str | None:
    if not compiled(
        r"No such file or directory|\[Errno 20\]|does(?:n't| not) exist|Not a directory|Is a directory|not found"
    ).search(first):
        return None
    if compiled(SAVING).search(first) or raised.worker or compiled(LOADER).search(raised.stack()) or trained(case, raised):
        return None
    if compiled(r"\bsave|_save|\.save|to_csv|write_|dump\(").search(raised.stack(4)):
        return None
    if compiled(SETTINGS_FILE).search(first) and not compiled(
        r"annotation|label|sample|instances_|metadata|captions|train\.json"
    ).search(first):
        return "a settings file does not exist"
    if compiled(WEIGHTS).search(first):
        return "the weight file named in the settings does not exist"
    named = compiled(r"directory: ['\"]?(?P<path>[^'\"\n]+)").search(first)
    if named and "." not in named["path"].rsplit("/", 1)[-1].strip("./\\"):
        return "a folder named in the settings does not exist"
    return None


def _ended_early(case: Case) -> Iterator[Sign]:
    """A bar that stopped short, then the tracker's good-bye, and no error between."""
    for closing in case.log.index.saying(CLOSED)[:20]:
        before = case.log.around(closing, before=12)[:-1]
        bar = next((line for line in reversed(before) if compiled(BAR).search(line.text)), None)
        if bar is None or any(raised.kind and bar.order < raised.line.order for raised in case.log.raised):
            continue
        if any(compiled(STOPPED_EARLY).search(line.text) for line in before) or _ended_otherwise(case, bar):
            continue
        step, total = (to_int(group, 0) for group in compiled(BAR).search(bar.text).groups())  # type: ignore[union-attr]
        if 0 < step <= 0.95 * total:
            says = f"the run ended normally at step {step} of {total}: another limit was reached first"
            yield Sign("strong", says, (evidence(bar), evidence(closing)), order=bar.order)
            return


def _ended_otherwise(case: Case, bar: Line) -> bool:
    log = case.log
    done = log.finished is not None and log.finished.order > bar.order
    ends = [death.line.order for death in log.deaths] + [collective.line.order for collective in log.collectives]
    return done or any(order > bar.order for order in ends)


def in_config(case: Case) -> Iterator[Sign]:
    """Before the start: flags the program refuses, files that are not there or cannot be read, settings that contradict."""
    if case.before:
        yield from foreseen(case)


def in_recorder(case: Case) -> Iterator[Sign]:
    """An exception that speaks of the very setting with which its line works: a name that the program does not have."""
    leader = first(case)
    if leader is None or leader.raised is None:
        return
    for setting in (one for fact in case.all(SETTINGS_AT_PLACE) for one in fact.value):
        sure = _speaks_of(leader.raised, setting)
        if sure is not None:
            name = setting.spelling or setting.name
            says = f"{leader.how}: {name} is {setting.value!r}, and the program has nothing with that name"
            yield Sign(sure, says, (leader.raised.evidence,), order=order(case))
            yield Sign("strong", f"{name} is set here", (setting.evidence,), fatal=False)
            return


def _speaks_of(event: Event, setting: Fact) -> Strength | None:
    """Whether an exception is about a setting: its value is the name that was looked for, its key the argument that is not taken."""
    kind = str(event.details.get("type", "")).rpartition(".")[2]
    message = str(event.details.get("message", "")).strip().split("\n", 1)[0]
    value = setting.value
    if kind == "TypeError":
        refused = compiled(r"unexpected keyword argument '(\w{1,100})'").search(message)
        return "decisive" if refused is not None and refused[1] == setting.name.rpartition(".")[2] else None
    if not isinstance(value, str) or len(value) < SHORTEST_NAME or value.isdigit():
        return None
    if kind == "AttributeError":
        return (
            "decisive"
            if message.endswith(f"has no attribute '{value}'") or f"has no attribute '{value}'." in message
            else None
        )
    if kind == "KeyError":
        return "decisive" if message.strip("'\"") == value else None
    spots = of_event(event)
    own = bool(spots) and is_own(spots[-1].file) and kind in OWN_REFUSALS
    words = {word.strip("'\"`.,:;()[]{}") for word in message[:LONGEST_MESSAGE].split()}
    refuses = message == value or compiled(REFUSES).search(message[:LONGEST_MESSAGE]) is not None
    return "strong" if own and value in words and refuses and "/" not in value else None


def fix(case: Case) -> Iterator[Fix]:
    """A patch where only the spelling is wrong, or the flag that was meant; else words."""
    yield from mended(case)
    for wrong, right in _meant(case):
        why = f"the program has no {wrong}; {right} is the closest name it has"
        yield Fix(f"Use {right} instead of {wrong}", "by-hand", why)
    yield Fix(
        "Correct the setting named in the message",
        "by-hand",
        "print the settings as the program reads them (`--cfg job`, `--print_config`, `--help`) and compare names and "
        "paths; use the config of the same version; use absolute paths; set only one of epochs and steps",
    )


def _meant(case: Case) -> Iterator[tuple[str, str]]:
    """Flags that the parser refused, each with the one of its own that is spelled alike: as it was recorded, or as it printed them."""
    known = set(case.program_flags or ())
    refused: list[str] = []
    for line in case.log.index.saying(("--",)):
        known.update(compiled(USAGE).findall(line.text))
        match = compiled(REFUSED).search(line.text)
        refused += [word.strip(",").partition("=")[0] for word in match[1].split() if word.startswith("--")] if match else []
    from difflib import get_close_matches

    for wrong in dict.fromkeys(refused[:MOST_REFUSED]):
        close = get_close_matches(wrong, sorted(known), n=1, cutoff=0.7)
        if close:
            yield wrong, close[0]


experiment = Experiment(
    title="Let the program only parse and print its settings, with and without the correction",
    start_from="the beginning",
    stop_after="the settings are printed, and the dataset and model are built",
    confirms="with the correction it gets past the failing line; without it, it fails there again",
    refutes="it fails at the same place with the correction: then the code expects something else (code/version)",
)
