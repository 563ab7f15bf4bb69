"""Functions are extracted, inlined, wrapped, decorated by hand, or become lambdas."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from .program import (
    FUNCTIONS,
    Block,
    Function,
    Program,
    Scopes,
    assign,
    call,
    dotted,
    is_generator,
    load,
    names_in,
    new_function,
    own_nodes,
    rewrite,
    scoped_blocks,
    suspends,
)
from .scopes import Scope, parameters, rename

_EAGER = frozenset({"sum", "any", "all", "max", "min", "list", "tuple", "sorted", "dict", "set"})
_SMALL = 12


@rewrite
def lambda_for_def(program: Program) -> None:
    """`def f(x): return e` becomes `f = lambda x: e`, for functions that are only called: a lambda cannot be pickled."""
    for path, module in program.modules.items():
        scopes, elsewhere = Scopes(module), program.words_elsewhere(path)
        for owner, block in list(scoped_blocks(module)):
            for number, statement in enumerate(block):
                if (
                    not isinstance(statement, ast.FunctionDef)
                    or isinstance(owner, ast.ClassDef)
                    or statement.name in elsewhere
                ):
                    continue
                body = [part for part in statement.body if not _is_docstring(part)]
                if (
                    len(body) == 1
                    and isinstance(body[0], ast.Return)
                    and body[0].value is not None
                    and _only_called(scopes, owner, statement)
                ):
                    signature = copy.deepcopy(statement.args)
                    for parameter in parameters(signature):
                        parameter.annotation = None
                    block[number] = assign(statement.name, ast.Lambda(signature, body[0].value))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _only_called(scopes: Scopes, owner: ast.AST, function: ast.FunctionDef) -> bool:
    if function.decorator_list or is_generator(function):
        return False
    scope = scopes.by_node[owner]
    called = {id(node.func) for node in ast.walk(scopes.root.node) if isinstance(node, ast.Call)}
    places = scopes.places(scope, function.name)
    return all(place is function or id(place) in called for place in places) and scopes.owner(scope, function.name) is scope


@rewrite
def decorators_by_hand(program: Program) -> None:
    """`@decorated def f` becomes `def f` and `f = decorated(f)`; so do decorated methods and classes."""
    for module in program.modules.values():
        for _, block in list(scoped_blocks(module)):
            for number in range(len(block) - 1, -1, -1):
                statement = block[number]
                if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)) or not statement.decorator_list:
                    continue
                decorators = statement.decorator_list
                if any(statement.name in names_in(part) for part in decorators) or _is_overloaded(block, statement.name):
                    continue
                value: ast.expr = load(statement.name)
                for decorator in reversed(decorators):
                    value = call(decorator, value)
                statement.decorator_list = []
                block.insert(number + 1, assign(statement.name, value))


def _is_overloaded(block: Block, name: str) -> bool:
    return sum(isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == name for part in block) > 1


@rewrite
def body_wrapped_in_run(program: Program) -> None:
    """The body of `main` moves into a function `run`, which `main` calls with its own arguments."""
    for module in program.modules.values():
        scopes = Scopes(module)
        for number, function in enumerate(module.body):
            if (
                not isinstance(function, ast.FunctionDef)
                or not function.name.startswith(("main", "train"))
                or is_generator(function)
            ):
                continue
            if scopes.reads_its_names() or function.args.posonlyargs or function.args.vararg or function.args.kwarg:
                continue
            inner = copy.deepcopy(function)
            inner.name, inner.decorator_list, inner.returns = scopes.fresh(f"run_{function.name}"), [], None
            inner.args.defaults, inner.args.kw_defaults = [], [None for _ in inner.args.kwonlyargs]
            given = [load(part.arg) for part in function.args.args]
            named = [ast.keyword(part.arg, load(part.arg)) for part in function.args.kwonlyargs]
            docstring = function.body[:1] if _is_docstring(function.body[0]) else []
            function.body = [*docstring, ast.Return(ast.Call(load(inner.name), list(given), named))]
            module.body.insert(number, inner)
            break


@dataclass(frozen=True)
class _Site:
    """A statement that does nothing but call a function and keep, return or drop what it returns."""

    owner: ast.AST
    block: Block
    statement: ast.Expr | ast.Assign | ast.Return
    call: ast.Call


@rewrite
def inlined_function(program: Program) -> None:
    """A small function that is called once is written out where it is called."""
    for path, module in program.modules.items():
        outside = program.words_elsewhere(path)
        for function in [part for part in module.body if isinstance(part, ast.FunctionDef)]:
            scopes = Scopes(module)
            if function.name in outside or not _can_be_inlined(scopes, function):
                continue
            site = _only_call(scopes, module, function)
            given = _given(function, site.call) if site is not None else None
            if site is not None and given is not None and _sees_the_same(scopes, site.owner, function):
                _write_out(scopes, function, site, given)
                module.body.remove(function)


def _can_be_inlined(scopes: Scopes, function: ast.FunctionDef) -> bool:
    inner = [node for part in function.body for node in ast.walk(part)]
    odd = (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.Global, ast.Nonlocal, ast.GeneratorExp)
    returns = [node for node in inner if isinstance(node, ast.Return)]
    ends = not returns or (len(returns) == 1 and returns[0] is function.body[-1])
    small = sum(isinstance(node, ast.stmt) for node in inner) <= _SMALL
    plain = not function.decorator_list and not any(isinstance(node, odd) for node in inner) and not is_generator(function)
    strings = {node.value for node in ast.walk(scopes.root.node) if isinstance(node, ast.Constant)}
    return small and plain and ends and not scopes.reads_its_names() and function.name not in strings


def _only_call(scopes: Scopes, module: ast.Module, function: ast.FunctionDef) -> _Site | None:
    places = [place for place in scopes.places(scopes.root, function.name) if place is not function]
    if len(places) != 1:
        return None
    for owner, block in scoped_blocks(module):
        for statement in block:
            value = statement.value if isinstance(statement, ast.Expr | ast.Assign | ast.Return) else None
            if (
                isinstance(value, ast.Call)
                and value.func is places[0]
                and owner is not function
                and not isinstance(owner, ast.ClassDef)
            ):
                assert isinstance(statement, ast.Expr | ast.Assign | ast.Return)
                return _Site(owner, block, statement, value)
    return None


def _given(function: ast.FunctionDef, node: ast.Call) -> list[tuple[str, ast.expr]] | None:
    """The parameters with what the call gives them, in the order of evaluation; None where that cannot be told."""
    signature = function.args
    names = [part.arg for part in signature.args]
    if signature.vararg or signature.kwarg or signature.kwonlyargs or signature.posonlyargs or len(node.args) > len(names):
        return None
    if any(isinstance(part, ast.Starred) for part in node.args) or any(part.arg not in names for part in node.keywords):
        return None
    given = [*zip(names, node.args, strict=False), *((str(part.arg), part.value) for part in node.keywords)]
    defaults = dict(zip(names[len(names) - len(signature.defaults) :], signature.defaults, strict=True))
    missing = [name for name in names if name not in dict(given)]
    if any(not isinstance(defaults.get(name), ast.Constant) for name in missing) or len(dict(given)) != len(given):
        return None
    return [*given, *((name, defaults[name]) for name in missing)]


def _sees_the_same(scopes: Scopes, owner: ast.AST, function: ast.FunctionDef) -> bool:
    """Whether the names that the function takes from its module mean the same where it is called."""
    scope, caller = scopes.by_node[function], scopes.by_node[owner]
    used = {name for inner in scope.descendants() for name in inner.places}
    foreign = {name for name in used if scopes.owner(scope, name) is not scope and name not in scope.bound}
    return all(scopes.owner(caller, name) in (None, scopes.root) for name in foreign)


def _write_out(scopes: Scopes, function: ast.FunctionDef, site: _Site, given: list[tuple[str, ast.expr]]) -> None:
    scope = scopes.by_node[function]
    others = [other for other in scopes.root.descendants() if other not in list(scope.descendants())]
    new = {}
    for name in sorted(scope.bound):
        used = any(name in other.places for other in others)
        new[name] = scopes.fresh(f"{function.name}_{name}") if used else name
        rename(scopes.places(scope, name), name, new[name])
    body = [part for part in function.body if not _is_docstring(part)]
    last = body[-1] if body and isinstance(body[-1], ast.Return) else None
    value = last.value if last is not None and last.value is not None else ast.Constant(None)
    lines: Block = [assign(new[name], argument) for name, argument in given]
    lines += body[:-1] if last is not None else body
    if not isinstance(site.statement, ast.Expr) or not isinstance(value, ast.Constant):
        site.statement.value = value
        lines.append(site.statement)
    place = site.block.index(site.statement)
    site.block[place : place + 1] = lines or [ast.Pass()]


@rewrite
def extracted_function(program: Program) -> None:
    """A block of statements becomes a function of the module; its variables are parameters, what it assigns is returned."""
    for path, module in program.modules.items():
        scopes = Scopes(module)
        if scopes.reads_its_names():
            continue
        elsewhere = program.words_elsewhere(path)
        for number in range(len(module.body) - 1, -1, -1):
            statement = module.body[number]
            hosts = [node for node in ast.walk(statement) if isinstance(node, ast.FunctionDef)]
            added = [new for host in hosts for new in _extract_from(scopes, host, _before_body(host), set())]
            if not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
                assigned = {name for part in module.body[:number] for name in _surely_assigned(part)}
                added += _extract_from_block(_Host(scopes, scopes.root, elsewhere), [statement], assigned)
            module.body[number:number] = added


@dataclass(frozen=True)
class _Host:
    """The function or module that statements are taken out of."""

    scopes: Scopes
    scope: Scope
    elsewhere: set[str]

    def passes(self, name: str) -> bool:
        """Whether a name is a variable of the host that the new function needs as a parameter."""
        home = self.scopes.owner(self.scope, name)
        if home is not self.scopes.root:
            return home is not None
        if self.scope is not self.scopes.root:
            return False
        fixed = (*FUNCTIONS, ast.ClassDef, ast.alias)
        return not all(isinstance(place, fixed) for place in self.scopes.binders(self.scopes.root, name))


def _before_body(host: Function) -> set[str]:
    return {part.arg for part in parameters(host.args)}


def _extract_from(scopes: Scopes, host: ast.FunctionDef, assigned: set[str], elsewhere: set[str]) -> list[ast.FunctionDef]:
    if is_generator(host):
        return []
    return _extract_from_block(_Host(scopes, scopes.by_node[host], elsewhere), host.body, assigned)


def _extract_from_block(host: _Host, block: Block, assigned: set[str]) -> list[ast.FunctionDef]:
    """Take the body of the first loop that can be taken; else the first statements of the block that can."""
    known = set(assigned)
    for statement in block:
        inside = known | _surely_assigned_before_body(statement)
        if isinstance(statement, ast.For | ast.While | ast.With) and not isinstance(statement, ast.AsyncFor):
            function = _taken(host, statement.body, 0, len(statement.body), inside)
            if function is not None:
                return [function]
        for name in ("body", "orelse") if isinstance(statement, ast.For | ast.While | ast.With | ast.If) else ():
            inner: Block = getattr(statement, name, [])
            function_list = _extract_from_block(host, inner, inside if name == "body" else known) if inner else []
            if function_list:
                return function_list
        known |= _surely_assigned(statement)
    if host.scope is host.scopes.root:
        return []
    known = set(assigned)
    for start in range(len(block) - 1):
        for end in range(len(block) - 1, start + 1, -1):
            function = _taken(host, block, start, end, known)
            if function is not None:
                return [function]
        known |= _surely_assigned(block[start])
    return []


def _taken(host: _Host, block: Block, start: int, end: int, known: set[str]) -> ast.FunctionDef | None:
    """Replace statements by a call of a new function, if that changes nothing."""
    statements = block[start:end]
    if not _can_be_moved(statements):
        return None
    stored = _stored(statements)
    read = [name for name in _in_order(statements) if host.passes(name)]
    inside = {id(node) for part in statements for node in ast.walk(part)}
    changed_by_others = {name for scope in host.scopes.root.descendants() for name in scope.elsewhere}
    if changed_by_others & set(read) or _comprehension_names(statements) & set(host.scope.places):
        return None
    returned = []
    for name in sorted(stored):
        home = host.scopes.owner(host.scope, name)
        if home is not host.scope or host.scopes.used_inside_others(host.scope, name) or name in host.elsewhere:
            return None
        used_outside = any(id(place) not in inside for place in host.scopes.places(host.scope, name))
        # A variable that is read in the block before it is assigned there comes from the round before.
        if used_outside or name in _maybe_read_first(statements):
            returned.append(name)
    surely = {name for part in statements for name in _surely_assigned(part)}
    needed = [
        name
        for name in read
        if name not in stored or name in _maybe_read_first(statements) or (name in returned and name not in surely)
    ]
    if any(name not in known for name in needed) or any(name not in surely and name not in needed for name in returned):
        return None
    if returned and any(isinstance(node, ast.Try) for node in ast.walk(host.scope.node)):
        return None
    function_name = host.scopes.fresh("extracted")
    body: Block = list(statements)
    values = [load(name) for name in returned]
    result: ast.expr = values[0] if len(values) == 1 else ast.Tuple(list(values), ast.Load())
    work = ast.Call(load(function_name), [load(name) for name in needed], [])
    if returned:
        body.append(ast.Return(result))
        targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in returned]
        target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
        block[start:end] = [ast.Assign([target], work, lineno=0)]
    else:
        block[start:end] = [ast.Expr(work)]
    return new_function(function_name, needed, body)


def _can_be_moved(statements: Block) -> bool:
    """Whether a block leaves only at its end, keeps nothing that looks at its variables later, and is more than a call."""
    nodes = [node for part in statements for node in ast.walk(part)]
    leaves = (ast.Return, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.Delete, ast.Import, ast.ImportFrom, ast.Try)
    later = (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.NamedExpr, ast.AnnAssign)
    if len(nodes) < 8 or suspends(statements) or any(isinstance(node, (*leaves, *later)) for node in nodes):
        return False
    eager = {
        id(node.args[0])
        for node in nodes
        if isinstance(node, ast.Call) and len(node.args) == 1 and dotted(node.func) in _EAGER
    }
    if any(isinstance(node, ast.GeneratorExp) and id(node) not in eager for node in nodes):
        return False
    private = any(
        isinstance(node, ast.Attribute) and node.attr.startswith("__") and not node.attr.endswith("__") for node in nodes
    )
    special = any(isinstance(node, ast.Name) and node.id in ("super", "__class__", "__file__", "__name__") for node in nodes)
    return not private and not special


def _stored(statements: Block) -> set[str]:
    """The variables of the host that a block assigns; those of its comprehensions are its own."""
    hidden = {
        id(node)
        for part in statements
        for inner in ast.walk(part)
        if isinstance(inner, ast.comprehension)
        for node in ast.walk(inner.target)
    }
    nodes = (node for part in statements for node in ast.walk(part))
    return {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in hidden
    }


def _in_order(statements: Block) -> list[str]:
    """The names that a block reads, without those of its comprehensions."""
    own = _comprehension_names(statements)
    nodes = (node for part in statements for node in ast.walk(part))
    return list(dict.fromkeys(node.id for node in nodes if isinstance(node, ast.Name) and node.id not in own))


def _comprehension_names(statements: Block) -> set[str]:
    comprehensions = [node for part in statements for node in ast.walk(part) if isinstance(node, ast.comprehension)]
    return {name for node in comprehensions for name in names_in(node.target)}


def _maybe_read_first(statements: Block) -> set[str]:
    """The names that may be read before the block has surely assigned them."""
    found: set[str] = set()
    known: set[str] = set()

    def look(block: Block, known: set[str]) -> None:
        known = set(known)
        for part in block:
            heads = [node for node in ast.iter_child_nodes(part) if not isinstance(node, ast.stmt)]
            for head in heads:
                found.update(
                    node.id
                    for node in [head, *own_nodes(head)]
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known
                )
            if isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name) and part.target.id not in known:
                found.add(part.target.id)
            inside = known | _surely_assigned_before_body(part)
            look(getattr(part, "body", []), inside)
            look(getattr(part, "orelse", []), known)
            known |= _surely_assigned(part)

    look(statements, known)
    return found


def _surely_assigned_before_body(statement: ast.stmt) -> set[str]:
    """The names that a loop or `with` binds before its body runs."""
    if isinstance(statement, ast.For):
        return _names_bound(statement.target)
    if isinstance(statement, ast.With):
        return {
            name for item in statement.items if item.optional_vars is not None for name in _names_bound(item.optional_vars)
        }
    return set()


def _surely_assigned(statement: ast.stmt) -> set[str]:
    """The names that have a value once the statement has run."""
    if isinstance(statement, ast.Assign):
        return {name for target in statement.targets for name in _names_bound(target)}
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return _names_bound(statement.target)
    if isinstance(statement, ast.With):
        return _surely_assigned_before_body(statement) | {name for part in statement.body for name in _surely_assigned(part)}
    if isinstance(statement, ast.If) and statement.orelse:
        both = [{name for part in block for name in _surely_assigned(part)} for block in (statement.body, statement.orelse)]
        return both[0] & both[1]
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {part.asname or part.name.split(".")[0] for part in statement.names}
    return set()


def _names_bound(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
