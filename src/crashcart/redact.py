"""Keeps secrets and terminal tricks out of everything that is shown or written.

Logs, commands and environments hold keys, and a report gets pasted into public issues. ``secret_search`` finds them by shape, name
and place; here they are replaced, in one text or in plain data of any depth. A value that is known to be a secret, since a setting
of such a name has it, is replaced wherever it stands, also where its name does not: in what an error says, under another name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from crashcart.escapes import plain
from crashcart.record import names_of, replace
from crashcart.secret_search import HIDDEN, NEXT, names_secret, secrets_in, stands_for_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from crashcart.secret_search import Place

    Context = Callable[[Any], Sequence[str]]

__all__ = ["HIDDEN", "clean", "clean_all", "forget_secrets", "hide", "learn_secrets", "names_secret"]

Data = TypeVar("Data")

_NAMES = ("spelling", "name", "key", "Name")  # members of plain data that name the value beside them
_VALUES = frozenset(("value", "Value", "default", "text", "quote"))
_ABOVE = 4096  # characters above a line in which the name of what it holds may stand: a private key takes 3,300
_SHORTEST, _LONG_WORD = 6, 10  # what is shorter may be a word of the answer
_known: list[str] = []  # the longest first


def learn_secrets(settings: Iterable[tuple[str, str]]) -> None:
    """Hide the values that are secrets under one of their names wherever they stand, until they are forgotten."""
    for name, value in settings:
        is_telling = len(value) >= (_LONG_WORD if value.isalpha() else _SHORTEST)
        if is_telling and value not in _known and names_secret(name) and stands_for_secret(name, value):
            _known.append(value)
    _known.sort(key=len, reverse=True)


def forget_secrets() -> None:
    """Another answer begins."""
    _known.clear()


def clean(text: str) -> str:
    """The text without secrets and control characters."""
    return hide(plain(text))


def clean_all(data: Data, context: Context | None = None) -> Data:
    """The same data with every text in it cleaned: records, tuples, lists and dictionaries all the way down.

    What stands under a name that says secret goes, and the items of a list are read together: ``["--api_key", "VALUE"]``.
    ``context`` tells the line that a record quotes and those above it, the quoted one last: a name may stand there.
    """
    return _walk(data, "", context)  # type: ignore[no-any-return]


def hide(text: str) -> str:
    """The text without secrets, and otherwise as it is."""
    for secret in _known:
        text = text.replace(secret, HIDDEN)
    places = sorted(secrets_in(text))
    if not places:
        return text
    parts, done = [], 0
    for start, end in _joined(places):
        parts += [text[done:start], _cover(text[start:end])]
        done = end
    return "".join([*parts, text[done:]])


def _joined(places: list[Place]) -> Iterator[Place]:
    """Places that overlap or touch as one."""
    start, end = places[0]
    for next_start, next_end in places[1:]:
        if next_start > end:
            yield start, end
            start, end = next_start, next_end
        end = max(end, next_end)
    yield start, end


def _cover(secret: str) -> str:
    """What is shown instead; as many lines as there were, so that those below keep their numbers."""
    for mark in (NEXT, "\n"):
        if mark in secret:
            return mark.join(_cover(line) for line in secret.split(mark))
    return HIDDEN if secret.strip() else secret


def _hide_below(lines: Sequence[str], quote: str) -> str:
    """A quotation without the secrets that its line is known to hold when it is read with the lines above it."""
    text = "\n".join(map(plain, lines))
    last = text.rfind("\n") + 1
    if last > _ABOVE:
        text, last = text[last - _ABOVE :], _ABOVE
    for start, end in sorted(secrets_in(text), reverse=True):
        if end > last and (secret := text[max(start, last) : end].strip()):
            quote = quote.replace(secret, HIDDEN)
    return quote


def _walk(data: Any, name: str, context: Context | None) -> Any:  # noqa: ANN401 - any plain data
    """The data that stands under a name, cleaned."""
    if isinstance(data, str):
        return _under(name, plain(data))
    if isinstance(data, dict):
        return {_walk(key, "", None): item for key, item in _members(data, context).items()}
    if isinstance(data, (tuple, list)):
        items = _items(data, name, context)
        return type(data)(*items) if hasattr(data, "_fields") else type(data)(items)
    fields = names_of(data)
    if fields is not None:
        members = {field: getattr(data, field) for field in fields}
        if context is not None and "quote" in members and (lines := context(data)):
            members["quote"] = _hide_below(lines, plain(members["quote"]))
        return replace(data, **_members(members, context))
    if name and isinstance(data, int) and not isinstance(data, bool) and stands_for_secret(name, str(data)):
        return HIDDEN
    return data


def _under(name: str, text: str) -> str:
    return HIDDEN if name and stands_for_secret(name, text) else hide(text)


def _members(members: dict[Any, Any], context: Context | None) -> dict[Any, Any]:
    """A record or a dictionary: the name of a value is its key, or stands beside it (``{"name": "API_KEY", "value": ...}``)."""
    named = next((members[key] for key in _NAMES if isinstance(members.get(key), str)), "")
    cleaned = {}
    for key, item in members.items():
        name = named if key in _VALUES and named else key
        cleaned[key] = _walk(item, name if isinstance(name, str) else "", context)
    return cleaned


def _items(items: Sequence[Any], name: str, context: Context | None) -> list[Any]:
    """The items of a list, texts and fields of records as one text: a name may stand in one and its value in the next."""
    if len(items) > 1 and all(isinstance(item, str) for item in items):
        return [_under(name, text) for text in _together(items)]
    cleaned = [_walk(item, name, context) for item in items]
    fields = names_of(items[0]) if len(items) > 1 else None
    if fields is None or any(type(item) is not type(items[0]) for item in items):
        return cleaned
    for field in fields:
        column = [getattr(item, field) for item in cleaned]
        if all(isinstance(text, str) for text in column):
            texts = _together(column)
            cleaned = [replace(item, **{field: text}) for item, text in zip(cleaned, texts, strict=True)]
    return cleaned


def _together(texts: Sequence[str]) -> list[str]:
    return hide(NEXT.join(map(plain, texts))).split(NEXT)
