"""Names that a library has given up for others, written as it calls them now.

    AttributeError: module 'numpy' has no attribute 'trapz'                     numpy 2.4: np.trapezoid
    ImportError: cannot import name 'simps' from 'scipy.integrate'              scipy 1.14: simpson
    TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'

The tables hold what the libraries' own release notes give as the same thing under another name: NumPy 1.20, 1.24, 2.0 and 2.4, SciPy
1.14, Pillow 10, scikit-learn 1.4, transformers 4.46 and 5, Lightning 2, Python 3.10 and 3.12. The library has refused the old name, so
that it is of a version that knows the new one.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.model import Edit, Span
from crashcart.pattern import Pattern
from crashcart.readers.code.edits import replaced
from crashcart.readers.remedies._scene import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.source import Source
    from crashcart.readers.remedies._scene import Scene

_NO_ATTRIBUTE = Pattern(r"^module '([\w.]{1,100})' has no attribute '(\w{1,60})'")
_NO_NAME = Pattern(r"^cannot import name '(\w{1,60})' from '([\w.]{1,100})'")
_NO_ARGUMENT = Pattern(r"^([\w.]{1,100})\(\) got an unexpected keyword argument '(\w{1,60})'")
_RENAMED = {
    **{f"numpy.{old}": f"numpy.{new}" for old, new in {
        "trapz": "trapezoid", "in1d": "isin", "product": "prod", "cumproduct": "cumprod", "sometrue": "any", "alltrue": "all",
        "row_stack": "vstack", "round_": "round", "Inf": "inf", "Infinity": "inf", "PINF": "inf", "infty": "inf", "NaN": "nan",
        "NAN": "nan", "float_": "float64", "complex_": "complex128", "longfloat": "longdouble", "singlecomplex": "complex64",
        "cfloat": "complex128", "string_": "bytes_", "unicode_": "str_", "mat": "asmatrix", "issubsctype": "issubdtype",
        "asfarray": "asarray",
    }.items()},
    **{f"numpy.{name}": name for name in ("float", "int", "bool", "object", "str", "complex")},
    **{f"scipy.integrate.{old}": f"scipy.integrate.{new}" for old, new in {
        "trapz": "trapezoid", "cumtrapz": "cumulative_trapezoid", "simps": "simpson",
    }.items()},
    "PIL.Image.ANTIALIAS": "PIL.Image.LANCZOS", "PIL.Image.LINEAR": "PIL.Image.BILINEAR", "PIL.Image.CUBIC": "PIL.Image.BICUBIC",
    **{f"collections.{name}": f"collections.abc.{name}" for name in (
        "Mapping", "MutableMapping", "Sequence", "MutableSequence", "Iterable", "Iterator", "Callable", "Hashable", "Sized", "Set",
        "MutableSet", "Container", "Generator",
    )},
    "time.clock": "time.perf_counter", "inspect.getargspec": "inspect.getfullargspec",
    "torch.qr": "torch.linalg.qr", "torch.cholesky": "torch.linalg.cholesky",
    "torch.optim.lr_scheduler._LRScheduler": "torch.optim.lr_scheduler.LRScheduler",
}  # fmt: skip
_ARGUMENTS = {
    ("TrainingArguments", "evaluation_strategy"): "eval_strategy",
    ("Seq2SeqTrainingArguments", "evaluation_strategy"): "eval_strategy",
    ("TrainingArguments", "no_cuda"): "use_cpu",
    ("Trainer", "tokenizer"): "processing_class",
    ("Seq2SeqTrainer", "tokenizer"): "processing_class",
    ("from_pretrained", "use_auth_token"): "token",
    ("OneHotEncoder", "sparse"): "sparse_output",
    ("ModelCheckpoint", "period"): "every_n_epochs",
    ("Trainer", "checkpoint_callback"): "enable_checkpointing",
}


def look(scene: Scene) -> Iterator[Fact]:
    """The new name wherever the file that failed, and its siblings, use the old one."""
    for raised in scene.raises:
        spot = raised.frames[-1] if raised.frames else None
        source = scene.source(spot.file) if spot is not None else None
        if spot is None or source is None:
            continue
        if match := _NO_ATTRIBUTE.search(raised.words):
            old = f"{match[1]}.{match[2]}"
        elif match := _NO_NAME.search(raised.words):
            old = f"{match[2]}.{match[1]}"
        elif match := _NO_ARGUMENT.search(raised.words):
            yield from _renamed_argument(source, match[1].removesuffix(".__init__").rpartition(".")[2], match[2])
            return
        else:
            continue
        new = _RENAMED.get(old)
        if new is None:
            return
        uses = [edit for each in scene.sources for edit in _renamed(each, old, new)]
        seen = source.evidence(node) if (node := next(iter(_uses(source, old)), None)) is not None else None
        if seen is not None:
            why = f"the library now uses that name; {len(uses)} place{'s' * (len(uses) > 1)}"
            yield from remedy(("code/version", "code/bug"), f"Write {new} instead of {old}", "exact", why, uses, seen)
        return


def _uses(source: Source, name: str) -> list[ast.expr]:
    """Where a file uses a name of a library by its module: ``np.trapz``."""
    return [node for node in source.nodes(ast.Attribute) if source.called(node) == name and not _is_written(node)]


def _is_written(node: ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load) or not isinstance(node.value, (ast.Name, ast.Attribute))


def _renamed(source: Source, old: str, new: str) -> Iterator[Edit]:
    module, _, name = old.rpartition(".")
    new_module, _, new_name = new.rpartition(".")
    for node in _uses(source, old):
        if new_module == module:
            written = source.written(node)
            yield replaced(source, node, f"{written[: written.rfind('.') + 1]}{new_name}")
        elif not new_module:
            yield replaced(source, node, new_name)
        elif isinstance(node, ast.Attribute) and new.startswith(f"{module}."):
            yield replaced(source, node, f"{source.written(node.value)}{new.removeprefix(module)}")
    for statement in source.nodes(ast.ImportFrom):
        names = {alias.name: alias for alias in statement.names}
        if (
            statement.module == module
            and name in names
            and new_module == module
            and statement.lineno == statement.end_lineno
        ):
            alias = names[name]
            start = source.offset(alias.lineno, alias.col_offset)
            end = source.offset(alias.lineno, alias.end_col_offset or 0)
            yield Edit(Span(source.path, start, end, alias.lineno), f"{new_name} as {alias.asname or name}")


def _renamed_argument(source: Source, function: str, name: str) -> Iterator[Fact]:
    new = _ARGUMENTS.get((function, name))
    if new is None:
        return
    places = [
        keyword
        for call in source.nodes(ast.Call)
        if source.called(call.func).rpartition(".")[2] == function
        for keyword in call.keywords
        if keyword.arg == name
    ]
    for keyword in places[:1]:
        start = source.offset(keyword.lineno, keyword.col_offset)
        span = Span(source.path, start, start + len(name), keyword.lineno)
        why = f"{function} uses that name for the argument in this version"
        yield from remedy(
            ("code/version", "config/missing-or-wrong", "code/bug"), f"Write {new}= instead of {name}=", "exact", why,
            [Edit(span, new)], source.evidence(keyword.value),
        )  # fmt: skip
