"""Loops become comprehensions, comprehensions loops, `for` becomes `while`, `with` becomes `try`."""

from __future__ import annotations

import ast

from .evaluation import plain_numbers
from .program import (
    Block,
    Program,
    Scopes,
    assign,
    call,
    dotted,
    inside_try,
    load,
    names_in,
    replace_statements,
    rewrite,
    scoped_blocks,
    single_target,
    suspends,
)
from .scopes import Scope, rename


@rewrite
def append_loop_to_comprehension(program: Program) -> None:
    """`xs = []` and `for x in ys: xs.append(f(x))` become `xs = [f(x) for x in ys]`."""
    for module in program.modules.values():
        scopes = Scopes(module)
        for owner, block in list(scoped_blocks(module)):
            if isinstance(owner, ast.ClassDef) or inside_try(module, block):
                continue
            for number in range(len(block) - 2, -1, -1):
                statement, loop = block[number], block[number + 1] if number + 1 < len(block) else None
                name = single_target(statement)
                empty = (
                    isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List) and not statement.value.elts
                )
                if name and empty and isinstance(loop, ast.For) and _only_here(scopes, scopes.by_node[owner], loop):
                    comprehension = _comprehension(name, loop)
                    if comprehension is not None:
                        block[number : number + 2] = [assign(name, comprehension)]


def _only_here(scopes: Scopes, scope: Scope, loop: ast.For) -> bool:
    """Whether the variables of a loop are used nowhere else, and by no function that may run later."""
    inside = {id(node) for node in ast.walk(loop)}
    for name in names_in(loop.target):
        home = scopes.owner(scope, name)
        if (
            home is None
            or scopes.used_inside_others(home, name)
            or any(id(node) not in inside for node in scopes.places(home, name))
        ):
            return False
    return not (isinstance(scope.node, ast.Module) and scopes.reads_its_names())


def _comprehension(name: str, loop: ast.For) -> ast.ListComp | None:
    tests: list[ast.expr] = []
    body = loop.body
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        tests, body = [body[0].test], body[0].body
    if loop.orelse or len(body) != 1 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Call):
        return None
    append = body[0].value
    function = append.func
    appends = (
        isinstance(function, ast.Attribute)
        and function.attr == "append"
        and isinstance(function.value, ast.Name)
        and function.value.id == name
    )
    parts = [*append.args, loop.iter, *tests]
    if not appends or len(append.args) != 1 or append.keywords or any(name in names_in(part) for part in parts):
        return None
    if suspends(parts) or any(isinstance(node, ast.NamedExpr | ast.Starred) for part in parts for node in ast.walk(part)):
        return None
    return ast.ListComp(append.args[0], [ast.comprehension(loop.target, loop.iter, tests, 0)])


@rewrite
def comprehension_to_append_loop(program: Program) -> None:
    """`xs = [f(x) for x in ys]` becomes `xs = []` and a loop that appends; so does one that is returned."""
    for module in program.modules.values():
        scopes = Scopes(module)

        def change(statement: ast.stmt, scopes: Scopes = scopes) -> list[ast.stmt] | None:
            if not isinstance(statement, ast.Assign | ast.Return) or not isinstance(statement.value, ast.ListComp):
                return None
            built = statement.value
            runs_later = any(isinstance(node, ast.Lambda | ast.GeneratorExp) for node in ast.walk(built))
            if runs_later or suspends([built]) or any(generator.is_async for generator in built.generators):
                return None
            return _append_loop(statement, built, scopes)

        replace_statements(module, change)


def _append_loop(statement: ast.Assign | ast.Return, built: ast.ListComp, scopes: Scopes) -> list[ast.stmt]:
    scope = scopes.by_node[built]
    for name in sorted(scope.bound):
        if any(name in other.places for other in scopes.root.descendants() if other is not scope):
            rename(scopes.places(scope, name), name, scopes.fresh(name))
    target = scopes.fresh("items")
    body: list[ast.stmt] = [ast.Expr(call(ast.Attribute(load(target), "append", ast.Load()), built.elt))]
    for generator in reversed(built.generators):
        for test in reversed(generator.ifs):
            body = [ast.If(test, body, [])]
        body = [ast.For(generator.target, generator.iter, body, [], lineno=0)]
    statement.value = load(target)
    return [assign(target, ast.List([], ast.Load())), *body, statement]


@rewrite
def while_for_range(program: Program) -> None:
    """`for i in range(a, b)` becomes a `while` over a counter of its own."""
    for module in program.modules.values():
        scopes = Scopes(module)
        if not scopes.is_builtin("range"):
            continue
        for owner, block in list(scoped_blocks(module)):
            is_whole = plain_numbers(module, scopes, owner, whole=True)
            for number in range(len(block) - 1, -1, -1):
                loop = block[number]
                if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call) or isinstance(owner, ast.ClassDef):
                    continue
                count = loop.iter
                step = count.args[2] if len(count.args) == 3 else ast.Constant(1)
                steps_up = isinstance(step, ast.Constant) and isinstance(step.value, int) and step.value > 0
                # `range` refuses a float, a comparison does not: only numbers that are sure to be whole.
                if dotted(count.func) == "range" and count.args and steps_up and all(is_whole(part) for part in count.args):
                    block[number : number + 1] = _counting_while(loop, count, step, scopes)


def _counting_while(loop: ast.For, count: ast.Call, step: ast.expr, scopes: Scopes) -> list[ast.stmt]:
    position, end = scopes.fresh("position"), scopes.fresh("end")
    start, stop = (ast.Constant(0), count.args[0]) if len(count.args) == 1 else (count.args[0], count.args[1])
    before: Block = [assign(position, start)]
    if isinstance(stop, ast.Constant):
        limit: ast.expr = stop
    else:
        before.append(assign(end, stop))
        limit = load(end)
    advance = ast.AugAssign(ast.Name(position, ast.Store()), ast.Add(), step)
    body: Block = [ast.Assign([loop.target], load(position), lineno=0), advance, *loop.body]
    return [*before, ast.While(ast.Compare(load(position), [ast.Lt()], [limit]), body, loop.orelse)]


@rewrite
def with_to_try_finally(program: Program) -> None:
    """`with open(p) as f:` becomes `f = open(p)` and `try: ... finally: f.close()`."""
    for module in program.modules.values():
        scopes = Scopes(module)

        def change(statement: ast.stmt, scopes: Scopes = scopes) -> list[ast.stmt] | None:
            if (
                not isinstance(statement, ast.With)
                or not scopes.is_builtin("open")
                or not _opens_file(statement.items[0].context_expr)
            ):
                return None
            item, rest = statement.items[0], statement.items[1:]
            file = scopes.fresh("opened")
            target = item.optional_vars
            body: Block = [ast.With(rest, statement.body, lineno=0)] if rest else statement.body
            if isinstance(target, ast.Name) and not _assigned_in(body, target.id):
                file = target.id
            elif target is not None:
                body = [ast.Assign([target], load(file), lineno=0), *body]
            close = ast.Expr(call(ast.Attribute(load(file), "close", ast.Load())))
            return [assign(file, item.context_expr), ast.Try(body, [], [], [close])]

        replace_statements(module, change)


def _opens_file(node: ast.expr) -> bool:
    """`open(...)`, or the method of a path."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "open"
    modes = [part.value for part in node.args if isinstance(part, ast.Constant)]
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "open"
        and len(node.args) == 1
        and modes in (["r"], ["w"], ["rb"], ["wb"], ["a"])
    )


def _assigned_in(body: Block, name: str) -> bool:
    nodes = (node for statement in body for node in ast.walk(statement))
    return any(isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load) for node in nodes)
