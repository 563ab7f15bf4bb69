"""Numbers that grow with a length that only the data tell: from which length on they reach a number, as Python has it."""

from __future__ import annotations

import ast

import pytest

from crashcart.readers.interpreter.lengths import Length, compared_length, limited_length, rounded_length, worked_out
from crashcart.readers.interpreter.values import Constant, Unknown, Value

TABLE = Unknown()


def followed(node: ast.expr) -> Value | None:
    """An expression over ``n``, as the interpreter works it out."""
    if isinstance(node, ast.Name):
        return Length(TABLE, frozenset())
    if isinstance(node, ast.BinOp):
        left, right = followed(node.left), followed(node.right)
        return worked_out(node.op, left, right) if left is not None and right is not None else None
    if isinstance(node, ast.Call):
        values = [value for argument in node.args if (value := followed(argument)) is not None]
        called = ast.unparse(node.func)
        if called == "max":
            return limited_length(values)
        return rounded_length(values[0]) if isinstance(values[0], Length) else None
    return Constant(ast.literal_eval(node))


@pytest.mark.parametrize(
    "text",
    [
        "n", "n - 64 + 1", "n - 16 - 2 + 1", "(n - 16) // 4 + 1", "n // 16", "((n - 2) // 3 - 1) // 2", "max(0, n - 64 + 1)", "max(0, n - 4) + 1",
        "int(0.8 * n)", "int(n * 0.25) - 1", "n * 4 // 5", "int(n / 3)", "2 * n - 5",
    ],
)  # fmt: skip
def test_a_number_is_reached_from_the_same_length_on_as_in_python(text: str) -> None:
    value = followed(ast.parse(text, mode="eval").body)
    assert isinstance(value, Length)
    for wanted in (1, 2, 7):
        reached = [n for n in range(400) if eval(text, {"n": n}) >= wanted]  # noqa: S307 - the expressions above
        assert value.length_for(wanted) == reached[0]


@pytest.mark.parametrize("text", ["5 - n", "n % 3", "max(0, n - 4) // 2", "(n // 2) * 3", "n // -2", "n - 0.5"])
def test_what_does_not_grow_with_the_length_as_a_whole_number_is_not_worked_out(text: str) -> None:
    assert followed(ast.parse(text, mode="eval").body) is None


@pytest.mark.parametrize(
    "text", ["n < 64", "n <= 64", "n > 64", "n >= 64", "64 > n", "64 <= n", "n - 16 + 1 < 1", "n // 4 >= 3"]
)
def test_a_test_turns_at_the_same_length_as_in_python(text: str) -> None:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Compare)
    left, right = followed(node.left), followed(node.comparators[0])
    assert left is not None
    assert right is not None
    test = compared_length(node.ops[0], left, right)
    assert test is not None
    for n in range(200):
        assert eval(text, {"n": n}) is (test.if_enough if n >= test.least else not test.if_enough)  # noqa: S307
        assert test.negated().if_enough is not test.if_enough
