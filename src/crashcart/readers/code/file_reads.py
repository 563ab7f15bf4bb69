"""Files that become a sample as they are: raw points, a tensor that was saved, a pickle.

    points = np.fromfile(path, dtype=np.float32)                                         one file a sample
    [np.fromfile(one) for one in self.paths[at : at + self.length]]                      so many files a sample
    torch.load(self.paths[at])

Only what goes out with the sample is meant: what is cut, thinned out or counted on the way may be as small as it likes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from crashcart.readers.code._callers import last_name
from crashcart.readers.code._given import Giving
from crashcart.readers.code._sample_code import data_sets, followed
from crashcart.readers.code.source import parents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crashcart.model import Fact
    from crashcart.readers.code.program import Program
    from crashcart.readers.code.source import Function

READS = {"numpy.fromfile", "torch.load", "pickle.load", "torch.from_file", "safetensors.torch.load_file"}
# What leaves all values where they are.
SAME = {
    "from_numpy", "as_tensor", "tensor", "stack", "array", "asarray", "concatenate", "cat", "reshape", "view", "astype", "float", "copy",
    "dict", "list", "tuple", "items", "to", "contiguous", "clone", "permute", "transpose", "ascontiguousarray", "append",
}  # fmt: skip
_ITEMS = ("__getitem__", "__iter__")


def look(program: Program) -> Iterator[Fact]:
    """``code.file_read``: whose sample, and how many files it is made of."""
    giving: Giving | None = None
    seen: set[ast.AST] = set()
    for source, owner in data_sets(program):
        parts = followed(program, source, owner, *_ITEMS)
        for at, function in parts:
            for call in ast.walk(function):
                if not isinstance(call, ast.Call) or call in seen or at.called(call.func) not in READS:
                    continue
                seen.add(call)
                if _goes_out(function, call) and (function.name in _ITEMS or _passed_on(parts[0][1], function)):
                    giving = giving or Giving(program)
                    many = _many(call)
                    value = {"class": owner.name, "many": giving.of(at, many) if many is not None else {"value": 1}}
                    yield at.fact("code.file_read", value, call)


def _many(call: ast.Call) -> ast.expr | None:
    """``n`` of ``for one in paths[at : at + n]`` around a read."""
    for above in parents(call):
        over = above.generators[0].iter if isinstance(above, (ast.ListComp, ast.GeneratorExp)) else None
        over = above.iter if isinstance(above, ast.For) else over
        if isinstance(over, ast.Subscript) and isinstance(over.slice, ast.Slice):
            lower, upper = over.slice.lower, over.slice.upper
            if lower is not None and isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add):
                if ast.dump(upper.left) == ast.dump(lower):
                    return upper.right
                return upper.left if ast.dump(upper.right) == ast.dump(lower) else None
    return None


def _goes_out(function: Function, call: ast.Call) -> bool:
    """Whether what is read becomes part of the answer whole, at once or through names."""
    names: set[str] = set()
    wanted: ast.AST = call
    for _ in range(4):
        end = _whole(wanted)
        if isinstance(end, ast.Return | ast.Yield):
            return True
        if isinstance(end, str):
            names.add(end)
        reached = [
            one
            for one in ast.walk(function)
            if isinstance(one, ast.Name) and one.id in names and isinstance(one.ctx, ast.Load)
        ]
        if any(isinstance(_whole(one), ast.Return | ast.Yield) for one in reached):
            return True
        more = {found for one in reached if isinstance(found := _whole(one), str)} - names
        if not more:
            return False
        names |= more
    return False


def _whole(node: ast.AST) -> ast.AST | str | None:
    """Where a value ends up as it is: the return, the name that it is given, the list that it is put into."""
    for above in parents(node):
        if isinstance(above, ast.Return | ast.Yield):
            return above
        if isinstance(above, ast.Assign):
            target = above.targets[0]
            return target.id if isinstance(target, ast.Name) else None
        if isinstance(above, ast.Call):
            last = last_name(above.func)
            if last not in SAME:
                return None
            if last == "append" and isinstance(above.func, ast.Attribute) and isinstance(above.func.value, ast.Name):
                return above.func.value.id
        elif isinstance(above, (ast.Attribute, ast.Dict, ast.Tuple, ast.List, ast.keyword, ast.ListComp, ast.GeneratorExp)):
            continue
        elif not isinstance(above, (ast.DictComp, ast.comprehension)):
            return None
    return None


def _passed_on(item: Function, reader: Function) -> bool:
    """Whether the item is made of all that another function answers with: nothing of it is picked out."""
    calls = [one for one in ast.walk(item) if isinstance(one, ast.Call) and last_name(one.func) == reader.name]
    if len(calls) != 1:
        return False
    if isinstance(_whole(calls[0]), ast.Return):
        return True
    return _goes_out(item, calls[0]) or any(isinstance(one, ast.comprehension) for one in parents(calls[0]))
