"""Finds secrets in a text. Three things give one away.

- its shape: ``ghp_...``, ``AKIA...``, a private key, 40 hexadecimal digits that no word beside them calls a commit;
- its name: whatever stands under ``api_key``, ``--token``, ``Authorization:``, in any notation in which a name meets a value;
- its place: before the ``@`` of an address, behind ``curl -u``.

``secret_forms`` holds the data. A text is searched for a few stems and beginnings, and only what stands beside a hit is looked at,
once and within bounds: a line of a megabyte costs no more than a megabyte of lines. All expressions are those of the standard
library, so that the answer is the same on every machine.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from crashcart.pattern import compiled
from crashcart.secret_forms import (
    BODIES,
    COMMANDS,
    HARMLESS_BEFORE_KEY,
    HARMLESS_BEFORE_PASS,
    HARMLESS_BEFORE_TOKEN,
    LOGIN_CALLS,
    NOT_A_VALUE,
    NOT_BEFORE_KEY,
    OWNERS,
    PLACES,
    SECRET_CALLS,
    SECRET_PARTS,
    SHAPES,
    SHOWN_MEMBERS,
    UNANCHORED,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["HIDDEN", "NEXT", "Place", "names_secret", "secrets_in", "stands_for_secret"]

Place = tuple[int, int]

HIDDEN = "[hidden]"
NEXT = "\x1e"  # between items of a list that are read as one text; white space to an expression, and in no plain text
# How surely a name stands for a secret: random values only, values that are no plain words, also short words with a digit in them
# (hunter2), anything but a literal or a path.
NOT_SECRET, IF_RANDOM, IF_UNUSUAL, IF_MIXED, ALWAYS = range(5)
_COVERS = ("[hidden", "[redacted")
_LONGEST_NAME = 64
_LONGEST_KEPT = 8192
_LONGEST_VALUE = 16384
_LONGEST_LOOK = 400  # characters of a value that are looked at to tell what it is
_WIDE = {ordinal: ordinal - 0xFEE0 for ordinal in range(0xFF01, 0xFF5F)}  # full-width forms of ASCII
_MANY_HUMPS = 3  # OpenSSH has two
_LETTERS_IN_HUMP = (2.7, 3.6)  # fewer than that in words that are none, short and long
_RANDOM, _UNUSUAL = 16, 8  # random characters that a value must have to be one, by how surely its name says secret


def secrets_in(text: str) -> Iterable[Place]:
    """Where secrets stand; places may overlap."""
    if len(text) < 3:  # noqa: PLR2004 - no secret is so short
        return ()
    return _places_again(text) if len(text) < _LONGEST_KEPT else _places(text)


@lru_cache(maxsize=256)
def _places_again(text: str) -> tuple[Place, ...]:
    """A log says the same many times, and evidence quotes the same lines in several places."""
    return tuple(_places(text))


def _places(text: str) -> Iterator[Place]:
    yield from _search(text)
    lines = _as_lines(text)
    if lines != text:
        yield from _search(lines, shapes=False)
    if "@@ " in text and "\n-" in text and "\n+" in text:
        yield from _in_new_version(text)


def _as_lines(text: str) -> str:
    """The same places with written line ends as line ends, and blanks for what stands before lines (``[rank3]: ``, ``  | ``)."""
    if "\\n" in text:
        text = text.replace("\\\\\\n", "  \\\n").replace("\\n", " \n").replace("\\t", "  ")
    if "\n" not in text:
        return text
    return compiled(_MARK, re.MULTILINE).sub(lambda mark: " " * len(mark[0]), text)


def _in_new_version(text: str) -> Iterator[Place]:
    """Secrets of a difference as the changed file has them: the name of an added value may stand above removed lines."""
    lines = [line.span() for line in compiled(r"[^\n]*\n?", 0).finditer(text) if not line[0].startswith("-")]
    starts = list(accumulate((end - start for start, end in lines), initial=0))
    for start, end in _search("".join(text[start:end] for start, end in lines)):
        for number in range(bisect_right(starts, start) - 1, bisect_left(starts, end)):
            shift = lines[number][0] - starts[number]
            yield max(start, starts[number]) + shift, min(end, starts[number + 1]) + shift


def _search(text: str, *, shapes: bool = True) -> Iterator[Place]:
    if not text.isascii():
        text = text.translate(_WIDE)
    lowered = text.lower()
    if len(lowered) != len(text):  # a capital dotted I becomes two characters
        lowered = text.replace("\u0130", "i").lower()
    if (stem := compiled(_STEMS, 0).search(lowered)) is not None:
        yield from _by_name(text, lowered, stem.start())
        yield from _by_words_around(text)
    if shapes:
        yield from _by_shape(text)
    yield from _by_place(text, lowered)


def names_secret(name: str) -> bool:
    """Whether a setting, flag or variable of this name may hold a secret."""
    return _grade(name.strip("-+~ ")[-_LONGEST_NAME:]) > NOT_SECRET


def stands_for_secret(name: str, value: str) -> bool:
    """Whether a value is a secret under this name."""
    grade = _grade(name.strip("-+~ ")[-_LONGEST_NAME:])
    return grade > NOT_SECRET and _tells(value, name, grade, quoted=True, sign=":")


def _after(source: str, text: str, start: int) -> int:
    """Where an expression that may match nothing ends."""
    found = compiled(source, 0).match(text, start)
    return found.end() if found else start


# --- by name ---------------------------------------------------------------------------------------------------------------

# In every name that says secret stands one of these, and so does one in every text that ``PLACES`` speaks of.
_STEMS = (
    r"token|key|p(?:ass|wd|w|at(?![a-z])|in[ _-]?code|arola)|s(?:ecret|ig|essid|essionid|enha|eed[ _-]?phrase)|auth|hook|dsn|jwt|hasło"
    r"|c(?:red|ookie|onn(?:ection)?[_-]?str|ontrase)|b(?:earer|ackup[ _-]?code)|kennwort|otp(?![a-z])|recovery[ _-]?code|m(?:nemonic|ot[ _-]de[ _-]passe)|identified by|sudo -s|\?code=|&code=|huggingface"
    r"|парол|密[码碼]|口令|비밀번호|パスワード"
)
_WORDS = r"[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_]+"
_TRAILING = words(
    "old new prod dev staging live default tmp value val str string plain raw b64 base64 base main backup hex env0 v"
)
_PLURALS = ("secrets", "credentials", "creds", "passwords", "keys", "tokens")
_PLURAL_OWNERS = words("api access auth secret private refresh session bearer")
_LAST_WORDS = {
    "cred": ALWAYS, "creds": ALWAYS, "dsn": ALWAYS, "otp": ALWAYS, "auth": IF_MIXED, "getpass": IF_UNUSUAL, "sig": IF_RANDOM,
    "signature": IF_RANDOM, "tokens": IF_RANDOM, "keys": IF_RANDOM,
}  # fmt: skip
_MARK = r"^[+-]?[ \t]{0,40}(?:[|>]{1,8} |\[[^\]\n]{1,40}\]:? ?|\([^()\n]{1,40}\) )"
_NAME = r"[\w.-]{0,64}"
_NAMED_BEHIND = r"\\{0,3}[\"'`]?[ \t]{0,2}[:=]"
_REFUSED = r"(?:invalid|wrong|bad|incorrect|unknown|expired|rejected|revoked) \Z"
_IS_REFUSED = r"\S{1,200} (?:is|was|has) (?:been )?(?:not|no|invalid|wrong|incorrect|unknown|expired|rejected|revoked)\b"
_HEADERS = ("authorization", "cookie")
_RESOURCES = (
    *_HEADERS,
    "secret",
    "secrets",
    "credential",
    "credentials",
    "webhook",
)  # words for things that have names of their own
_CLOSE = r"(?:\\{0,3}[\"'`]|\*\*)?(?:\[\w{0,8}\]|[\])]){0,2}"
_SEPARATOR = (
    r"(?P<close>"
    + _CLOSE
    + r")(?:(?: [a-z]{1,12}){0,2} (?:is|was|provided|given|used|entered|for '[^'\n]{1,80}')(?=:)| (?:string|str)(?= =)| / '-[^'\n]{1,40}'(?=:))?[ \t]{0,60}"
    + r"(?P<sign>===|!==|==|!=|:{1,3}=|=>|->|\?{1,2}=|\+=|\.=|=|::?|,|;(?=[\"'])|>|\(|\.assign\(|%3[adAD]|<<<|\.{3,200}:?|(?:or|\|\||\?\?)(?= \\{0,3}[\"'])|[|\u2502\u2503\u2551])?[ \t]{0,200}"
)
_RULES = "|\u2502\u2503\u2551"
# What may stand between a sign and its value: what a parser says of it, another name for it, the tag and the anchor of YAML, a command of the shell that only prints.
_BEFORE_VALUE = r"(?:(?:invalid [\w.<>]{1,24}(?: value)?: |[A-Za-z_][\w.]{0,40} = |None or )(?=[\"'])|Expected [^\n]{0,80}? Got value: )?(?:(?:!![a-z]{1,12}|&\w{1,40})[ \t]{1,4}){0,2}(?:[\"']?\$\((?:echo|printf)[ \t]{1,4}(?:-\w{1,3}[ \t]{1,4})?)?"
_COLLECTION = _CLOSE + r"[ \t]{0,60}(?P<sign>=>|[=:])[ \t]{0,200}(?:(?P<bracket>[\[({])|(?=\n))"
_BRACKETS = {"[": "]", "(": ")", "{": "}"}
_KEY = r"(?:[\"']?(?<![\w.-])([\w.-]{1,40})[\"']?[ \t]{0,4}[:=][ \t]{0,60})?"
_ITEM = r"(?:[\"']([^\"'\n]{1,200})[\"']|([^\s\"',;\[\](){}:=]{3,200}))"
_LINE = r"\n([+-]?[ \t]{0,40}(?:-[ \t]{1,4})?)(?:[\"']?([\w.-]{1,40})[\"']?[ \t]{0,2}:(?:[ \t]{1,60}|(?=\n|\Z)))?"
_LARGEST_COLLECTION = 1000  # characters
_LONGEST_BLOCK = 20  # lines
_DEFAULT = r"[^()\n]{0,120}(?<!\w)(?:default|fallback)[ \t]{0,2}=[ \t]{0,2}\[?"
_ANNOTATION = r"[A-Za-z_][\w.]{0,30}(?:\[[\w., \[\]]{0,40}\])?(?: \| None)?[ \t]{1,4}=[ \t]{1,4}"
_OPENING = r"(?:(?:new |pydantic\.|dataclasses\.)?(?:SecretStr|SecretBytes|String|str|bytes|bytearray|quote|[fF]ield|(?:base64\.)?b64decode|bytes\.fromhex|[\"']{2}\.join)\(\[?[ \t]{0,2}(?:default=)?)?(?:[bBrRuUfF]{1,2}|[@$])?(?P<quote>(?:\\{1,3}[\"']){3}|\\{0,3}(?:\"\"\"|'''|[\"'`]))"
_GAP = r"(?:\\{0,3}[\"'`])?,?[ \t]{0,200}(?:\\?[\n\x1e][+-]?[ \t]{0,40}(?:-[ \t]{1,4})?)?"
_JOINING = words("to has as with for from in on at and or not if is")  # what follows is no other kind of token or key
_BELOW_KEY = r"[ \t]{0,4}\n[+-]?[ \t]{0,40}:[ \t]{1,8}"  # of YAML, behind a question mark
_BLOCK = r"(?:[|>][+-]?)?[ \t]{0,8}(?:#[^\n]{0,80})?\\?[\n\x1e](?:[+-][ \t]{0,40}|[ \t]{1,40}|(?=[\"']))"
_VALUE_BESIDE = r"\\{0,3}[\"']?[\s,;>/+-]{1,12}<?[\"']?(?:value|val|content)[\"']?[ \t]{0,4}[=:>][ \t]{0,4}"
_INPUT = r" ?\n[+-]?[ \t]{1,60}[A-Z][^\n\[]{0,120}\[[^\n\]]{0,80}\binput_value="  # what pydantic says of a setting
_CHOICES = r"\\{0,3}[\"'],[^\[\]()\n]{0,160}(?<!\w)choices[ \t]{0,2}=[ \t]{0,2}[\[({]"
_ATTRIBUTES = r"(?:(?: [\w:-]{1,30}=\"[^\"<>\n]{0,60}\"){1,4}(?=>))?"
_RUN = r"[^\s\"'`,;&)}\]>|\\]+"
_STOPS = r"[\"'`,;&)}\]>|](?:[\s\"'`,;&)}\]>|\\:]|\Z|[A-Za-z_][\w.\-]{0,40} ?[=:])|\\[nrt\"'\\/\s]|\s"
_WORD_FOLLOWS = r" (?!is |was |of |set |value |str(?:ing)? =)[A-Za-z]+(?:[ .,;)\n]|\Z)"
_CODE_BEFORE = r"(?:\A|[\s(])(?:if|elif|while|in|is|not|and|or|with|as)[ \t(]{1,2}\Z"  # if password:
_ARTICLES = words("the a an this that your my our its their his her old new same")
_VERBS = words(
    "get set delete enable disable create update list make load read check validate parse hash verify use is has add remove find"
)
_QUOTES = frozenset("'\"`")
_IN_CODE = "in code"  # the sign of a value that may be an expression
_COMPARISONS = frozenset(("==", "!=", "===", "!=="))
_FLAG = r"--?[A-Za-z][\w.-]*(?:[\s=\"',\x1e]|\Z)"
_SCHEME = r"(?:basic|bearer|(?:api-?)?token|digest|api-?key|key|negotiate|aws4-[\w-]+|hawk|oauth)\s{1,4}(?=\S)"
_HEADER_VALUE = _SCHEME + r"|[\w!#$%&*+.^|~-]{1,64}=[^=\s]"


def _by_name(text: str, lowered: str, first: int) -> Iterator[Place]:
    """Values that stand beside a name which says secret; the first such may stand at ``first``."""
    done = searched = 0  # where the last value ended, and the last collection
    for hit in compiled(_STEMS, 0).finditer(lowered, first):
        if hit.start() < done:
            continue
        begin, end, name = _name_around(text, hit, done)
        done = end
        grade = _grade(name.strip("-."))
        if not grade:
            continue
        if grade != ALWAYS and text[end : end + 1] == " " and name[0] != "-" and compiled(_WORD_FOLLOWS, 0).match(text, end):
            continue
        grade = _in_context(text, begin, end, name, grade)
        if not grade:
            continue
        places: Sequence[Place] | None = None
        if begin >= searched and (opening := compiled(_COLLECTION, 0).match(text, end)):
            places, searched = _members_of(text, begin, opening, name, grade)
        if places is None:
            place = _value_of(text, begin, end, name, grade)
            places = () if place is None else (place,)
        if (choices := compiled(_CHOICES, 0).match(text, end)) is not None:
            items = _items_in(
                text, choices.end(), min(_line_end(text, choices.end()), choices.end() + _LARGEST_COLLECTION), bare=False
            )
            grade = min(grade, IF_MIXED)
            places = [*places, *(place for _, place in items if _tells(text[slice(*place)], name, grade, quoted=True))]
        for place in places:
            if not _is_name_itself(text, place):
                done = max(done, place[1])
            yield place


def _is_name_itself(text: str, place: Place) -> bool:
    """Whether what was taken for a value is the name of another: ``token=Cookie: session=VALUE``, ``?token="password": "VALUE"``."""
    start, end = place
    if end - start > _LONGEST_NAME:
        return False
    if text[end - 1] in ":=" and text[end : end + 1] in {" ", "\t"}:
        return True
    return compiled(_NAMED_BEHIND, 0).match(text, end) is not None and _grade(text[start:end].strip("\"'`\\")) > NOT_SECRET


def _name_around(text: str, hit: re.Match[str], floor: int) -> tuple[int, int, str]:
    """Where the name begins and ends in which a stem stands, and the name; it begins with a dash where it is a flag."""
    begin, floor = hit.start(), max(floor, hit.start() - _LONGEST_NAME)
    while begin > floor and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
        begin -= 1
    end = _after(_NAME, text, hit.end())
    while text[end - 1] in ".-" and end > hit.start():
        end -= 1
    begin = _behind_escape(text, begin, end, hit.start())
    name, before = text[begin:end], text[begin - 1 : begin]
    if name[0] == "-" != name[1:2] and before in {"", "\n"} and text[end : end + 1] in {":", "=", " "}:
        return begin + 1, end, name[1:]  # the dash says that the line was removed
    return begin, end, name.lstrip("-") if before in {"`", ")"} else name


def _behind_escape(text: str, begin: int, end: int, stem: int) -> int:
    r"""Where a name begins that stands behind a written line feed: of ``\r\nhub_token`` without the letter of the escape."""
    if begin == stem or text[begin - 1 : begin] != "\\" or text[begin] not in "nrt":
        return begin
    return begin + 1 if _grade(text[begin + 1 : end].strip("-.")) >= _grade(text[begin:end].strip("-.")) else begin


@lru_cache(maxsize=4096)
def _grade(name: str) -> int:
    """How surely a name stands for a secret; the last words of it say what it is, those before whose."""
    words = [word.lower() for word in compiled(_WORDS, 0).findall(name)]
    squeezed = "".join(compiled(_WORDS, 0).findall(_last_segment(name))).lower()
    squeezed = compiled(r"secretar(?:y|ies|iat)|cookiecutter", 0).sub("", squeezed)
    if squeezed.endswith(("accesskeyid", "webhookurl", "webhookuri", "connectionstring", "connstr")):
        return ALWAYS
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TRAILING):
        words.pop()
    if words[-2:] == ["pass", "word"]:
        words[-2:] = ["password"]
    if not words or words[-1] in NOT_A_VALUE:
        return NOT_SECRET
    last, owner = words[-1], words[-2] if len(words) > 1 else ""
    if any(part in squeezed for part in SECRET_PARTS) or last.endswith("pwd") or _grade_of_holder(name, last) == ALWAYS:
        return ALWAYS
    for noun, harmless, alone in (
        ("token", HARMLESS_BEFORE_TOKEN, IF_MIXED),
        ("key", HARMLESS_BEFORE_KEY, IF_RANDOM),
        ("pass", HARMLESS_BEFORE_PASS, IF_MIXED),
        ("pw", HARMLESS_BEFORE_PASS, IF_MIXED),
        ("pat", frozenset[str](), IF_MIXED),
    ):
        if last == noun:
            is_other_key = noun in {"key", "pat"} and owner in NOT_BEFORE_KEY and not _is_owner("".join(words[-3:-2]))
            sure = _is_owner(owner) and not is_other_key
            return ALWAYS if sure else NOT_SECRET if owner in harmless else alone
        if last == f"{noun}s" and (owner in _PLURAL_OWNERS or (noun == "key" and owner in _providers())):
            return ALWAYS
        if last.endswith(noun) and last not in _LAST_WORDS and (prefix := last[: -len(noun)]) not in harmless:
            return (
                ALWAYS
                if _is_owner(prefix)
                else alone
                if noun == "token" or (noun == "key" and name.isupper())
                else NOT_SECRET
            )
        if words[0] == noun and owner and words[1] in _providers():
            return ALWAYS  # token_github
    if owner and last in {"tokens", "keys"}:
        return NOT_SECRET
    return _LAST_WORDS.get(last, min(_grade_of_holder(name, last), IF_UNUSUAL))


def _last_segment(name: str) -> str:
    """What a dotted name ends with: of ``db.password.value`` the password."""
    before, _, last = name.rpartition(".")
    return _last_segment(before) if before and last in _TRAILING else last


def _grade_of_holder(name: str, last: str) -> int:
    """``secrets.db``, ``api_key.main``: how surely what stands above a name is a secret."""
    holder = name.rpartition(".")[0]
    return _grade(holder) if holder and last not in SHOWN_MEMBERS else NOT_SECRET


def _is_owner(word: str) -> bool:
    return bool(word) and (word in OWNERS or word in _providers())


@cache
def _providers() -> frozenset[str]:
    return frozenset(line.split()[0] for line in SHAPES.strip().splitlines())


def _is_password(name: str) -> bool:
    return "pass" in name.lower() or name.lower().endswith(("pwd", "pw", "pin"))


def _in_context(text: str, begin: int, end: int, name: str, grade: int) -> int:
    """The grade as the surroundings have it: "API key", ``?key=``, ``TOKEN=``, ``--token``."""
    before = text[begin - 1 : begin]
    if before in {"?", "&"} or text[begin - 5 : begin] == "&amp;":
        return ALWAYS if grade >= IF_UNUSUAL else IF_MIXED
    if grade == ALWAYS:
        return grade
    if (
        before == " "
        and name.isalpha()
        and (word := compiled(r"([A-Za-z][\w-]{0,30}) \Z", 0).search(text[max(0, begin - 32) : begin]))
    ):
        owned = grade if word[1].lower() in _ARTICLES | _JOINING else _grade(f"{word[1]}_{name}")
        if owned in {NOT_SECRET, ALWAYS}:
            return owned
    sure = name.startswith("-") or (name.isupper() and text[end : end + 2].lstrip("+:")[:1] == "=")
    if grade >= IF_UNUSUAL and sure and not name.lower().endswith(("auth", "pat")):
        return ALWAYS
    return grade


def _value_of(text: str, begin: int, end: int, name: str, grade: int) -> Place | None:
    """Where the value of a name stands, if that is to be hidden."""
    end = _after(_ATTRIBUTES, text, end)
    separator = compiled(_SEPARATOR, 0).match(text, end)
    if separator is None:
        return None
    start, close, sign = separator.end(), separator["close"], (separator["sign"] or "").lower()
    around = text[begin - 1 : begin]
    if not close and around in _QUOTES and text[start : start + 1] == around:
        return None  # the end of 'Password: '
    if (
        beside := compiled(_VALUE_BESIDE, re.IGNORECASE).match(text, end) or compiled(_INPUT, 0).match(text, end)
    ) is not None:
        return _read(text, beside.end(), name, grade, "=")
    if not sign:
        return _gap(text, end, name, grade)
    if sign == "|" and not compiled(r"\|[ `\"']{1,8}\Z", 0).search(text[max(0, begin - 9) : begin]):
        return None  # no row of a table: the next command, or an expression
    if sign in _RULES or sign[:3] == "...":
        sign = ":"
    if sign in {",", ";", "or", "||", "??"}:
        return _listed(text, (begin, end, start), name, grade, close)
    if sign in {"(", ".assign("}:
        is_verb = compiled(_WORDS, 0).findall(name)[0].lower() in _VERBS or not _grade(name.rpartition(".")[2])
        return _read(text, start, name, grade, ",") if grade == ALWAYS and not close and not is_verb else None
    if sign == ">":
        opened = text.rfind("<", max(0, begin - 40), begin) > text.rfind(">", max(0, begin - 40), begin)
        return _element(text, start, name, grade) if opened else None
    return _assigned(text, (begin, end, start), name, grade, sign, close)


def _members_of(text: str, begin: int, opening: re.Match[str], name: str, grade: int) -> tuple[Sequence[Place] | None, int]:
    """Secrets in a collection: ``api_keys: ["VALUE"]``, ``auth=("me", "VALUE")``, ``passwords: {root: VALUE}``, or lines set in below a name.

    None where the name has one value; and where the search ended.
    """
    bracket = opening["bracket"]
    if bracket is None:
        members = _lines_below(text, begin, opening.end())
        stop = members[-1][1][1] if members else opening.end()
    else:
        closing = text.find(_BRACKETS[bracket], opening.end(), opening.end() + _LARGEST_COLLECTION)
        stop = closing if closing >= 0 else min(_line_end(text, opening.end()), opening.end() + _LARGEST_COLLECTION)
        members = _items_in(text, opening.end(), stop, bare=opening["sign"] == ":" and bracket != "(")
    grade = IF_MIXED if bracket == "(" and grade >= IF_UNUSUAL else min(grade, IF_MIXED)
    secrets = [
        (start, end)
        for key, (start, end) in members
        if not _is_shown(key)
        and _tells(text[start:end], name, grade, quoted=True)
        and not (grade == IF_RANDOM and "\\" in text[start:end])
    ]
    return secrets if secrets or (members and bracket is None) else None, stop


def _items_in(text: str, start: int, stop: int, *, bare: bool) -> list[tuple[str, Place]]:
    """The items between two brackets, each with its key if it has one; words without quotes count where ``bare`` says so."""
    found = compiled(_KEY + _ITEM, 0).finditer(text, start, stop)
    return [(item[1] or "", item.span(2 if item[2] else 3)) for item in found if bare or item[2]]


def _lines_below(text: str, begin: int, end: int) -> list[tuple[str, Place]]:
    """The values of ``key: value`` and ``- value`` in the lines that are set in below the line of a name."""
    column = begin - text.rfind("\n", 0, begin) - 1
    items: list[tuple[str, Place]] = []
    for _ in range(_LONGEST_BLOCK):
        line = compiled(_LINE, 0).match(text, end)
        is_below = line is not None and (len(line[1]) > column or (line[2] is None and len(line[1]) == column))
        if line is None or not is_below or not (line[2] or "-" in line[1]):
            break
        item = compiled(_ITEM, 0).match(text, line.end())
        items.append((line[2] or "", item.span(1 if item[1] else 2) if item else (line.end(), line.end())))
        end = _line_end(text, line.end())
    return items


def _is_shown(key: str) -> bool:
    """Whether a member of a collection of secrets is none itself: its user, its name, its path."""
    words = compiled(_WORDS, 0).findall(key.lower())
    return bool(words) and (words[-1] in SHOWN_MEMBERS or words[-1] in NOT_A_VALUE)


def _listed(text: str, at: tuple[int, int, int], name: str, grade: int, close: str) -> Place | None:
    """``["--api_key", "VALUE"]``, ``("password", "VALUE")`` and ``get("API_KEY", "VALUE")``."""
    begin, end, start = at
    if not close:
        if name[0] == "-":
            return _gap(text, end, name, grade)
        return _read(text, start, name, min(grade, IF_RANDOM), " ") if start == end + 1 else None  # columns
    place = _read(text, start, name, grade, ",")
    if place is None and (default := compiled(_DEFAULT, 0).match(text, start)):
        return _read(text, default.end(), name, grade, ",")
    if place is None or grade != ALWAYS or name.startswith("-"):
        return place
    value = text[place[0] : place[1]]
    is_pair = (
        text[begin - 2 : begin - 1] == "(" and text[place[1] + 1 : place[1] + 2] == ")" and not _grade(value[:_LONGEST_NAME])
    )
    is_name = value.isidentifier() and ("_" in value or value.isalpha()) and not _is_random(value, _UNUSUAL)
    return place if is_pair or not is_name else None


def _assigned(text: str, at: tuple[int, int, int], name: str, grade: int, sign: str, close: str) -> Place | None:
    """``name=value`` and ``name: value``; ``at`` is where the name begins, where it ends, and where the value begins."""
    begin, end, start = at
    if sign == ":":
        if (header := _header(text, begin, start, name, close)) is not None:
            return header
        start = _after(_ANNOTATION, text, start)
    elif sign == "=" and name.lower().endswith(_HEADERS[0]) and not close:
        start = _after(f"(?i:{_SCHEME})", text, start)
    if sign in _COMPARISONS and not compiled(_OPENING, 0).match(text, start):
        return None
    if sign == "=" and name.startswith("-") and text[end] == "=" and start > end + 1:
        return None  # an empty value
    start = _after(_BEFORE_VALUE, text, start)
    block = compiled(_BLOCK, 0).match(text, start)
    if block is not None:
        is_code = compiled(_CODE_BEFORE, 0).search(text[max(0, begin - 12) : begin])
        return None if is_code else _read(text, block.end(), name, grade, sign)
    if code := _may_be_code(text, (begin, end, start), name, sign, close):
        return _read(text, start, name, min(grade, code), _IN_CODE)
    return _read(text, start, name, grade, sign)


def _names_another(text: str, start: int, *, in_call: bool) -> bool:
    """``self.token``, ``job_secrets,``, ``_AccessToken``: what is given is itself the name of a secret, so it is a variable."""
    word = compiled(r"_*[A-Za-z]\w*(?:\.[A-Za-z_]\w*)*", 0).match(text, start)
    if word is None or not (_grade(word[0].rpartition(".")[2]) or word[0][0] == "_"):
        return False
    after = text[word.end() : word.end() + 1]
    return after in {"", " ", ",", ")", "\n", ";"} and (
        "." in word[0] or word[0][0] == "_" or (in_call and "_" in word[0] and after in {",", ")"})
    )


def _may_be_code(text: str, at: tuple[int, int, int], name: str, sign: str, close: str) -> int:
    """The grade of a value without quotes that may be an expression: ``{"token": token}``, ``x.password = user``, ``f(password=word)``."""
    begin, end, start = at
    if name.startswith("-") or compiled(_OPENING, 0).match(text, start):
        return NOT_SECRET
    if (sign == ":" and close[-1:] in _QUOTES) or (sign == "=" and close[-1:] == "]"):
        return IF_UNUSUAL
    if sign != "=":
        return NOT_SECRET
    line = text[max(0, begin - 200) : begin].rpartition("\n")[2]
    in_call = line.rfind("(") > line.rfind(")") or not line.strip()
    if _names_another(text, start, in_call=in_call):
        return IF_RANDOM
    word = compiled(r"[A-Za-z_][A-Za-z_.]*", 0).match(text, start)
    if word is None or name.isupper():
        return NOT_SECRET
    after = text[word.end() : word.end() + 1]
    spaced = text[end : end + 1] == " "
    if after in {"(", "["} or (not spaced and in_call and after in {",", ")"}):
        return IF_RANDOM
    return IF_MIXED if spaced and (text[begin - 1 : begin] == " " or "." in name or after == ",") else NOT_SECRET


def _gap(text: str, end: int, name: str, grade: int) -> Place | None:
    """A value after white space: of a flag, in a .netrc, behind ``set``, or anything that is random."""
    if text[end - len(name) - 2 : end - len(name)] == "? " and (below := compiled(_BELOW_KEY, 0).match(text, end)):
        return _read(text, below.end(), name, grade, ":")
    start = _after(_GAP, text, end)
    if start == len(text) or not text[end:start].strip("\\\"'`") or compiled(_FLAG, 0).match(text, start):
        return None
    if name.startswith("-"):
        return None if text[end : end + 1] == "`" else _read(text, start, name, grade, " ")
    if grade == ALWAYS and _is_told_to(text, end - len(name), name):
        return _read(text, start, name, grade, " ")
    is_told = start < (start := _after(r"(?:(?:is|was|of|set to|value)[ \t]{1,4})?", text, start))
    plain_word = compiled(r"[A-Za-z]{1,16}(?![\w+/=-])", 0).match(text, start)
    if plain_word is not None and not (grade == ALWAYS and _is_jumbled(plain_word[0])):
        return None  # prose
    is_sure = grade == ALWAYS and not name.lower().endswith(_RESOURCES)
    if grade == ALWAYS and text[start : start + 1] in _QUOTES and (place := _read(text, start, name, grade, ",")):
        after = text[place[1] + 1 : place[1] + 2]
        value = text[place[0] : place[1]][:_LONGEST_LOOK]
        return place if after == ";" or _is_random(value, _UNUSUAL) or (is_sure and _is_mixed(value)) else None
    in_column = text[end:start].isspace() and (start > end + 1 or text[end] == "\t")
    if is_sure and (is_told or in_column or compiled(r"\S{1,80}[ \t]{0,4}(?:\n|\Z)", 0).match(text, start)):
        return _read(text, start, name, min(grade, IF_MIXED), " ")
    least = IF_UNUSUAL if name.lower() == "bearer" else IF_RANDOM
    if grade >= IF_MIXED:  # invalid client_secret VALUE
        is_refused = compiled(_REFUSED, re.IGNORECASE).search(text[max(0, end - len(name) - 16) : end - len(name)])
        is_said = is_refused is not None or "_" in name or compiled(_IS_REFUSED, 0).match(text, start) is not None
        least = IF_UNUSUAL if (is_said and grade == IF_MIXED) or plain_word else IF_MIXED if is_said else least
    return _read(text, start, name, min(grade, least), " ")


def _is_told_to(text: str, begin: int, name: str) -> bool:
    """``setenv API_KEY x``, ``aws configure set aws_secret_access_key x``, and a password in a .netrc."""
    if ("_" in name or name.isupper()) and compiled(r"(?:\A|[\s+-])(?:set|setenv|export|put|-x|-gx|ENV|ARG)\s\Z", 0).search(
        text[max(0, begin - 8) : begin]
    ):
        return True
    before = text[max(0, begin - 120) : begin]
    return "login" in before and ("machine" in before or "default" in before) and "login" in before.split()[-4:]


def _header(text: str, begin: int, start: int, name: str, close: str) -> Place | None:
    """``Authorization: Bearer x`` and ``Cookie: a=b; c=d`` hide all that follows, to the quote around them or the end of the line."""
    if (
        not name.lower().rstrip("2").endswith(_HEADERS)
        or close
        or not compiled(_HEADER_VALUE, re.IGNORECASE).match(text, start)
    ):
        return None
    quote = text[begin - 1 : begin]
    line_end = _line_end(text, start)
    end = text.find(quote, start, line_end) if quote in {"'", '"', "`"} else -1
    end = line_end if end < 0 else end
    words = text[start : min(end, start + _LONGEST_LOOK)].split()
    return None if any(_is_literal(word, name) or word.startswith(_COVERS) for word in words[:2]) else (start, end)


def _element(text: str, start: int, name: str, grade: int) -> Place | None:
    """The content of ``<password>...</password>``."""
    end = text.find("<", start, start + 4096)
    end = end if end >= 0 else _after(r"\S{0,4096}", text, start)
    value = text[start:end]
    begin = start + len(value) - len(value.lstrip())
    stop = begin + len(value.strip())
    return (begin, stop) if _tells(value.strip(), name, grade, quoted=True) else None


def _read(text: str, start: int, name: str, grade: int, sign: str) -> Place | None:
    """The value that begins here, if it is to be hidden."""
    opening = compiled(_OPENING, 0).match(text, start)
    if opening is not None:
        begin, end = opening.end(), _closing(text, opening.end(), opening["quote"])
    elif sign == ",":
        return None
    else:
        begin, end = start, _word_end(text, start, start + _LONGEST_LOOK)
    value = text[begin : min(end, begin + _LONGEST_LOOK)]
    if sign == "," and compiled(_FLAG, 0).match(value):
        return None
    if opening is not None and "f" in opening[0].lower()[:-1] and "{" in value:
        value = compiled(r"\{[^{}]*\}", 0).sub("", value)  # the rest of an f-string may still hold a secret
        grade = min(grade, IF_RANDOM)
    if not _tells(value, name, grade, quoted=opening is not None, sign=sign):
        return None
    if (
        opening is None
        and sign == ":"
        and (_is_prose(text, value, end, name) or (name.lower().endswith(_HEADERS) and value.isalpha()))
    ):
        return None
    if opening is None and sign in {":", "="} and "phrase" in name.lower():
        end = _line_end(text, end)
    if opening is None and name[0] == "-" and "=" in value:
        return begin, _after(r"[^\s\"'`\x1e]{0,4096}", text, begin)  # --sas_token sv=2022&sig=...
    if opening is None:
        return begin, _word_end(text, end, end + _LONGEST_VALUE)
    while (more := compiled(r"[\"'][ \t]{0,4}\+[ \t]{0,4}([\"'])", 0).match(text, end)) is not None:
        end = _closing(text, more.end(), more[1])  # "Bearer " + "..."
    return begin, end


def _is_prose(text: str, value: str, end: int, name: str) -> bool:
    """``password: must be set``, ``passwd: command not found``: a plain word that more words follow."""
    if (
        "phrase" in name.lower()
        or not compiled(r"[A-Za-z]{1,14}[,.]?(?:'[a-z]+)?", 0).fullmatch(value)
        or len(_humps(value)) >= _MANY_HUMPS
    ):
        return False
    return compiled(r"[ \t]{1,4}[\w(\[]", 0).match(text, end) is not None


def _is_jumbled(value: str) -> bool:
    """Small and capital letters in an order that no words have: the parts of ``bcxsCiwbFdTg`` are short or have no vowel."""
    parts = _humps(value)
    odd = [
        part for part in parts if len(part) > 1 and not part.isupper() and not compiled(r"[aeiouyAEIOUY]", 0).search(part)
    ]
    is_odd = len(odd) * 2 >= len(parts) or len(value) < _LETTERS_IN_HUMP[len(value) > 28] * len(parts)  # noqa: PLR2004 - a token, or a word
    return len(parts) >= _MANY_HUMPS and is_odd and len(value) > _UNUSUAL


def _humps(value: str) -> list[str]:
    return compiled(r"[A-Z]?[a-z]+|[A-Z]+", 0).findall(value)


def _line_end(text: str, start: int) -> int:
    limit = min(len(text), start + _LONGEST_VALUE)
    for mark in ("\n", NEXT):
        limit = at if (at := text.find(mark, start, limit)) >= 0 else limit
    return limit


def _closing(text: str, start: int, quote: str) -> int:
    """Where the quote ends; without an end, the line does."""
    many = len(quote.lstrip("\\")) > 1
    limit = min(len(text), start + _LONGEST_VALUE) if many else _line_end(text, start)
    if text[start:limit] == "\\":  # the text begins in the next line
        limit = _line_end(text, limit + 1)
    at = text.find(quote, start, limit)
    while at > start and not quote.startswith("\\"):
        back = at - 1
        while back >= start and text[back] == "\\":
            back -= 1
        if (at - back) % 2:
            break
        at = text.find(quote, at + 1, limit)
    return at if at >= 0 else limit


def _word_end(text: str, start: int, limit: int) -> int:
    """Where a value without quotes ends: at white space, or at a delimiter that something else follows."""
    run, stops = compiled(_RUN, 0), compiled(_STOPS, 0)
    at, size = start, min(len(text), limit)
    while at < size:
        found = run.match(text, at, size)
        if found is not None:
            at = found.end()
        if at >= size or stops.match(text, at):
            return at
        at += 1
    return at


_LITERAL = (
    r"(?i:none|null|nil|true|false|yes|no|on|off|undefined|nan|empty|required|optional|str|int|float|bool|bytes|string|object|any|list|dict|tuple|type|path)"
    r"|(?i:unset|missing|invalid|expired|redacted|masked|hidden|removed|omitted|disabled|enabled|ok|failed|not|set|is|was|are|has|must|should|can|cannot|will|for|from|"
    r"in|if|else|and|or|with|lambda|await|return|the|a|an|to|of|this|that|it|found|given|error|default|auto)"
    r"|[*xX.#_?=\-\u2022\u2026]+|<[^<>]*>|\[[^\[\]]{0,40}\]|\(\w{0,20}\)|\$\{[^}]*\}?|\$\w+|\$\(.*|%\w+%|%\(?\w*\)?[sdr]|\{\{.*|\{[^{}]{0,60}\}|@\w*\(.*"
    r"|(?i:your|enter|insert|replace)[-_ ](?i:your|this|own|api|secret|access|auth|token|key|password|hf|it|with|the)\S*.{0,40}"
    r"|\w+ of \d+|0x[0-9A-Fa-f]{1,16}[uUlL]{0,3}|\S{0,8}\*{3,}\S{0,8}|\S{0,6}(?:\.{3,}|\u2026)\S{0,6}|(?i:values?)"
    r"|(?:typing\.|t\.)?(?:dict|list|tuple|set|type|Optional|Union|Literal|Annotated|NotRequired|Required|Sequence|Mapping|Iterable|Callable|ClassVar|Final|Type|Dict|List|Tuple)\[.*"
    r"|SecretStr.?|SecretBytes.?"
)
_PLACEHOLDER = r"<[^<>\s]{0,60}(?:>|\Z)|\{[^{}]{0,60}(?:\}|\Z)|\{\{"
_NUMBER = r"[-+]?[\d.,_:/]{1,18}(?:e[-+]?\d+)?[%kKmMgGbBsS]{0,3}"
_PATH = r"(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/|~$)[^\n]*|(?:[\w.@-]+/)+[\w.@-]*\.[A-Za-z]{1,8}|[\w.@-]+\.(?:pem|crt|key|pub|json|ya?ml|toml|txt|env|ini|cfg|py|sh|p12|pfx|jks|kdbx|netrc|conf)"
_CODE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[](?!.*[)\]]\w).*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|lambda.*|[!\-]?[a-z_]+\s.*|f[\"'].*"
_ADDRESSES = ("hook", "dsn", "conn")  # names whose values are addresses
_VARIABLE = r"[A-Z][A-Z]+(?:_[A-Z]{2,})+[0-9]?"


def _tells(value: str, name: str, grade: int, *, quoted: bool, sign: str = "") -> bool:
    """Whether a value under such a name gives a secret away."""
    value = value.strip()
    if not value or any(cover in value for cover in _COVERS) or _is_literal(value, name) or _is_path(value):
        return False
    if not quoted and (value[:1] in {"(", "["} or compiled(_PLACEHOLDER, 0).match(value)):
        return False
    if grade == IF_RANDOM:
        return _is_random(value, _RANDOM)
    if ("://" in value[:16]) != (any(part in name.lower() for part in _ADDRESSES) and not name.lower().endswith("secret")):
        is_tail = "hook" in name.lower() and (_is_random(value, _UNUSUAL) or _is_mixed(value))
        return "://" not in value[:16] and (is_tail or _is_random(value, _RANDOM))
    if _refers(value, name, quoted=quoted, sign=sign):
        return False
    if grade in {IF_UNUSUAL, IF_MIXED}:
        return (
            " " not in value
            and any(map(str.isalpha, value))
            and (
                value.startswith(("hf_", "sk-"))
                or _is_random(value, _UNUSUAL)
                or _is_unusual(value)
                or _is_jumbled(value)
                or (sign in {"=", _IN_CODE} and _is_odd(value))
                or (grade == IF_MIXED and _is_mixed(value))
            )
        )
    if quoted and name.lower().endswith(_HEADERS) and _is_literal(value.split()[-1], name):
        return False  # "Bearer %s"
    if (
        quoted
        and not _is_password(name)
        and compiled(r"(?:[A-Za-z'`-]+[.,:;!?]* ){3,}[A-Za-z'`-]+[.,:;!?]*", 0).fullmatch(value)
    ):
        return False  # a sentence
    if quoted and " " in value and sign not in {":", "="} and not _is_password(name) and not _is_random(value, _UNUSUAL):
        return name.lower().endswith(_HEADERS)  # else a help text or a message
    return any(map(str.isalnum, value))


def _refers(value: str, name: str, *, quoted: bool, sign: str) -> bool:
    """Whether a value only names something: a variable, a call, a module."""
    code = sign == _IN_CODE
    if (compiled(_VARIABLE, 0).fullmatch(value) and _grade(value)) or _same(value, name, code=code):
        return True
    is_pattern = not set(value).isdisjoint("*?\\[](){}|^$") or compiled(r"[A-Za-z]+[_-]\d+", 0).fullmatch(value)
    if is_pattern and name.lower().endswith("pat"):
        return True  # a pattern, or what it matches
    if quoted:
        return (
            not _is_password(name) and name[0] != "-" and compiled(r"[a-z_]*(?:\.[a-z_]+)+", 0).fullmatch(value) is not None
        )
    if (code or "(" in value) and compiled(_CODE, re.DOTALL).fullmatch(value) and not _is_random(value, _RANDOM):
        return True
    return code and _is_variable(value)


def _is_variable(value: str) -> bool:
    """``default_key``: a name of the program's own, as far as one can tell."""
    return value.isidentifier() and value.islower() and "_" in value and len(value) <= 30 and not _is_random(value, _UNUSUAL)  # noqa: PLR2004


def _is_unusual(value: str) -> bool:
    """A long word of letters and digits."""
    return compiled(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=_-]{12,}", 0).fullmatch(value) is not None


def _is_mixed(value: str) -> bool:
    """A word with a digit in it, as people make them up."""
    return compiled(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[^\s()\[\]{}<>]{6,}", 0).fullmatch(value) is not None


def _is_odd(value: str) -> bool:
    """No name of a variable."""
    return len(value) >= _UNUSUAL - 2 and not value.isidentifier()


def _same(value: str, name: str, *, code: bool) -> bool:
    """``api_key=api_key`` names itself; in code ``password=self.db_password`` does too."""
    if not code:
        return _squeezed(value) == _squeezed(name)
    words = compiled(_WORDS, 0).findall(name)
    last = _squeezed(value.rsplit(".", 1)[-1])
    return (
        bool(words)
        and words[-1].lower() in last
        and compiled(r"[A-Za-z_][\w.-]*", 0).fullmatch(value) is not None
        and not _is_random(value, _UNUSUAL)
    )


def _squeezed(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


@lru_cache(maxsize=1024)
def _is_literal(value: str, name: str) -> bool:
    if any(compiled(_LITERAL, re.DOTALL).fullmatch(form) for form in (value, value.rstrip(",;.:"))):
        return True
    number = compiled(_NUMBER, 0).fullmatch(value.rstrip(",;.:"))
    return number is not None and ("." in value or sum(map(str.isdigit, value)) < (4 if _is_password(name) else 6))


def _is_path(value: str) -> bool:
    if not compiled(_PATH, 0).fullmatch(value.rstrip(",;:")):
        return False
    return not any(_is_random(part, 24) for part in value.split("/"))


@lru_cache(maxsize=4096)
def _is_random(value: str, least: int) -> bool:
    """Whether so many characters of a text are neither words nor numbers; ``Qwen2ForCausalLM`` is words, ``9f86d081`` is not."""
    total = 0
    for piece in compiled(r"[A-Za-z0-9]{4,}", 0).findall(value):
        letters = sum(map(str.isalpha, piece))
        if letters in {0, len(piece)} and (piece.islower() or piece.isupper() or not letters):
            continue
        odd = len(compiled(r"[A-Z]?[a-z]{3,}", 0).sub("", piece))
        switches = len(compiled(r"(?=[A-Za-z][0-9]|[0-9][A-Za-z])", 0).findall(piece))
        total += len(piece) if odd * 2 >= len(piece) or switches * 6 >= max(len(piece), 18) else 0
    return total >= least


def _by_words_around(text: str) -> Iterator[Place]:
    """Values that other words than a name beside them give away."""
    for needed, source, if_random in PLACES:
        if needed in text:
            for found in compiled(source, 0).finditer(text):
                if _is_random(found[1], _RANDOM) if if_random else not _is_literal(found[1], "pass"):
                    yield found.span(1)


# --- by shape --------------------------------------------------------------------------------------------------------------

# Words that say what a hexadecimal number is: a few words before it, or right before it; and the addresses of code.
_DIGEST = r"(?:commit|revision|sha-?\d*|git|hash|snapshots?|\brev|\bhead|md5|digest|checksum|etag|blobs?|fingerprint|gist|crc)(?![a-z])"
_RIGHT_BEFORE = (
    r"(?:image|layer|container|docker|pod|trace|span|tree|parent|merge|branch|tag|version|uuid|guid|\brun|objects?|refs?|cache|index|pinned|build|\bid|_id)(?:[ _]key)?"
    r"[^\w\n]{0,4}\Z|[-.@]\Z|[/\\][0-9a-f]{2}[/\\]\Z"
)
_CODE_HOST = r"(?:github|gitlab|huggingface|bitbucket|notion|gist)[\w.-]{0,30}/[^\s\"']{0,100}\Z"
_BEFORE_DIGEST = 48
_BEFORE_HEX = 120
_LEAST_KEY_LINE = 16
_KEY_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\\"
_SHORTEST_HEX = 20  # of what was cut off
_HEX_LENGTHS = frozenset((32, 40, 48, 64, 96, 128))


def _by_shape(text: str) -> Iterator[Place]:
    """Tokens of known providers, private keys, and long runs of hexadecimal or base64 letters."""
    done = 0
    bordered = text  # the letters of %3D and of a written line feed are no part of the word that follows
    if "%" in text or "\\" in text:
        bordered = compiled(r"%[0-9A-Fa-f]{2}|\\[nrt]", 0).sub(lambda escaped: " " * len(escaped[0]), text)
    for hit in _beginnings().finditer(bordered):
        found = _token_at(text, hit) if hit.start() >= done else None
        if found is None:
            continue
        done = found.end()
        token = found[0][:_LONGEST_LOOK]
        if hit[0].startswith(_certain()) or _is_random(token, _UNUSUAL) or _is_long(token) or _is_jumbled(token):
            yield found.span()
    for needed, source in UNANCHORED:
        if needed in text:
            for found in compiled(source, 0).finditer(text):
                yield found.span()
    if "-----" in text:
        yield from _private_keys(text)
    yield from _runs(text)
    yield from _cut_off(text)


def _is_long(token: str) -> bool:
    """A run of letters that no word has."""
    run = compiled(r"[a-z0-9]{28}", 0).search(token)
    return run is not None and len(set(run[0])) > 10  # noqa: PLR2004


def _token_at(text: str, hit: re.Match[str]) -> re.Match[str] | None:
    """The token that begins here; of two beginnings that fit the longer counts."""
    for length in range(len(hit[0]), 0, -1):
        for source in _bodies().get(hit[0][:length], ()):
            if (found := compiled(source, 0).match(text, hit.start())) is not None:
                return found
    return None


@cache
def _bodies() -> dict[str, list[str]]:
    """The expressions of all tokens by their beginnings; each is compiled when its beginning is met."""
    bodies: dict[str, list[str]] = {}
    for line in SHAPES.strip().splitlines():
        _, beginning, body = line.split()
        first = beginning.lstrip("!")
        pieces = compiled(r"([AHUWDBP])(\d+)|(.)", 0).findall(body)
        source = "".join(f"{BODIES[letter]}{{{least},}}" if letter else re.escape(other) for letter, least, other in pieces)
        bodies.setdefault(first, []).append(re.escape(first) + source)
    return bodies


@cache
def _beginnings() -> re.Pattern[str]:
    """All beginnings, by their first letters: most places of a text are passed at one look."""
    by_letter: dict[str, list[str]] = {}
    for first in sorted(_bodies(), key=len, reverse=True):
        by_letter.setdefault(first[0], []).append(re.escape(first[1:]))
    border = "(?<![A-Za-z0-9].)"
    return re.compile("|".join(f"{re.escape(letter)}{border}(?:{'|'.join(rest)})" for letter, rest in by_letter.items()))


@cache
def _certain() -> tuple[str, ...]:
    """Beginnings that no other word has."""
    beginnings = dict.fromkeys(line.split()[1] for line in SHAPES.strip().splitlines())
    return tuple(first for first in beginnings if first[0] != "!")


def _private_keys(text: str) -> Iterator[Place]:
    """Whole PEM blocks, and what is left of one whose beginning or end was cut off."""
    at = 0
    for begin in compiled(r"-----BEGIN[ \x1eA-Z0-9_]{0,60}PRIVATE[ \x1e]KEY(?:[ \x1e]BLOCK)?-----", 0).finditer(text):
        if begin.start() < at:
            continue
        end = compiled(r"-----END[ \x1eA-Z0-9_]{0,60}-----", 0).search(text, begin.end())
        at = end.end() if end else len(text)
        yield begin.start(), at
    for end in compiled(r"-----END[ \x1eA-Z0-9_]{0,60}PRIVATE[ \x1e]KEY(?:[ \x1e]BLOCK)?-----", 0).finditer(text, at):
        start = max(at, end.start() - 16384)
        yield _key_before(text, start, end.start()), end.end()
        at = end.end()


def _key_before(text: str, start: int, end: int) -> int:
    """Where the lines of a key begin that ends here; each may stand behind the marks of a diff or a quotation."""
    lines = list(compiled(r"[^\n\x1e]+", 0).finditer(text[start:end].rstrip()))
    for place, line in enumerate(reversed(lines)):
        whole = compiled(r"[-+ \t|]{0,12}(?![-+ \t|])([A-Za-z0-9+/=\\]+)", 0).fullmatch(line[0])
        if whole is None or (place and len(whole[1]) < _LEAST_KEY_LINE):
            return start + len(line[0].rstrip(_KEY_LETTERS)) + line.start()
        end = start + line.start()
    return end


def _runs(text: str) -> Iterator[Place]:
    for found in compiled(r"[0-9a-fA-F](?<![A-Za-z0-9].)[0-9a-fA-F]{31,127}(?![A-Za-z0-9])", 0).finditer(text):
        if len(found[0]) in _HEX_LENGTHS and _is_hexadecimal(found[0], 32) and not _is_checksum(text, *found.span()):
            yield found.span()
    for found in compiled(r"(?<![.@%A-Za-z0-9+/=])[A-Za-z0-9+/=]{60,}", 0).finditer(text):
        if any(map(_is_base64, found[0].split("/"))):
            yield found.span()


def _is_base64(piece: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    return len(piece) >= 20 and all(sum(map(kind, piece[:256])) > 1 for kind in kinds) and _is_random(piece[:256], 18)  # noqa: PLR2004


def _is_checksum(text: str, start: int, end: int) -> bool:
    """Whether a word beside it says that it is a commit, the digest of a file or the like."""
    before = text[max(0, start - _BEFORE_DIGEST) : start]
    above, _, line = before.rpartition("\n")
    before = line if line.strip(" +-:").removeprefix("value") else above.rpartition("\n")[2] + line
    if compiled(_DIGEST, re.IGNORECASE).search(before) or compiled(_RIGHT_BEFORE, re.IGNORECASE).search(before[-16:]):
        return True
    if before[-1:] == "/" and compiled(_CODE_HOST, re.IGNORECASE).search(text[max(0, start - _BEFORE_HEX) : start]):
        return True
    return compiled(r" [ *][\w./-]|\.[A-Za-z]\w{0,8}\b|-[A-Za-z]", 0).match(text, end) is not None


def _cut_off(text: str) -> Iterator[Place]:
    """What is left of a token where a text was cut: at its end, and on both sides of an ellipsis."""
    yield from _last_word(text, len(text))
    if "\u2026" in text:
        for cut in compiled(r" ?\u2026 ?([A-Za-z0-9_+/=~-]{0,512})", 0).finditer(text):
            yield from _last_word(text, cut.start())
            if _is_random(cut[1][:40], _UNUSUAL):
                yield cut.span(1)


def _last_word(text: str, end: int) -> Iterator[Place]:
    """The word before a cut, where it begins as a token does; in the midst of a text also where it is random."""
    if not text[end - 1 : end].isalnum() and text[end - 1 : end] not in {"_", "-", "=", "+", "/"}:
        return
    word = compiled(r"[^A-Za-z0-9_.+/=~-]", 0).split(text[max(0, end - 120) : end])[-1]
    if len(word) < 4 or word.isalpha():  # noqa: PLR2004 - no beginning is shorter
        return
    begin = end - len(word)
    first = next((first for first in _certain() if first in word), "")
    start = word.rfind(first) if first else -1
    unsure = compiled(r"(?<![A-Za-z0-9])(?:hf_|sk-)[A-Za-z0-9]{2,}\Z", 0).search(word)
    if (
        start >= 0
        and not word[start - 1 : start].isalnum()
        and not compiled(r"[a-z_.-]*", 0).fullmatch(word, start + len(first))
    ):
        yield begin + start, end
    elif _is_hexadecimal(word, _SHORTEST_HEX) and not _is_checksum(text, begin, end):
        yield begin, end
    elif unsure and _is_random(word[unsure.start() :], 4):
        yield begin + unsure.start(), end
    elif end < len(text) and _is_random(word, _UNUSUAL):
        yield begin, end


def _is_hexadecimal(word: str, least: int) -> bool:
    """Whether a word is that many random hexadecimal digits."""
    mixed = not word.isdigit() and not word.isalpha() and len(set(word)) > 6  # noqa: PLR2004
    return mixed and len(word) >= least and not word.strip("0123456789abcdefABCDEF")


_ARGUMENT = r"(?:\\\n|[^\s\"',;|&\x1e]|[\"'][^\"'\n]{0,200}[\"'])+|[;|&\n]"
_LONGEST_COMMAND = 600


# --- by place --------------------------------------------------------------------------------------------------------------


_USER = r"(?<![\w/@.:-])[\w.+-]{1,64}:([^\s@/:\"']{3,128})@[\w-]+(?:\.[\w.-]{2,}[:/][\w~]|:\d{2,5}(?!\w))"


def _by_place(text: str, lowered: str) -> Iterator[Place]:
    """Passwords in addresses and behind the options of known programs."""
    if "//" in text or "\\/" in text or "%2f" in lowered:
        yield from _addresses(text)
    if "@" in text and ":" in text:
        for found in compiled(_USER, 0).finditer(text):
            if not _is_literal(found[1], ""):
                yield found.span(1)
    if " -" in text or "login" in lowered or "'-" in text or '"-' in text or "\x1e-" in text or "alias set" in text:
        yield from _arguments(text)
    if "('" in text or '("' in text or "(token=" in text or "(key=" in text:
        yield from _calls(text, lowered)
    if "==" in text or "!=" in text:  # "hunter2" == password
        for found in compiled(r"[\"']([^\"'\n]{3,200})[\"'] {0,2}[!=]==? {0,2}([A-Za-z_][\w.]{0,60})", 0).finditer(text):
            if _grade(found[2]) == ALWAYS and not _is_literal(found[1], found[2]):
                yield found.span(1)


def _calls(text: str, lowered: str) -> Iterator[Place]:
    """Arguments of functions that log in: ``login("me", "VALUE")``, ``login(key="VALUE")``."""
    for call in compiled(r"(?<![a-z_])([a-z_]{5,20})\((?=[\"'tk])", 0).finditer(lowered):
        if call[1] not in LOGIN_CALLS and call[1] not in SECRET_CALLS:
            continue
        stop = text.find(")", call.end(), call.end() + _LARGEST_COLLECTION)
        for argument in compiled(r"(?:(?<![=\w])|(?<=key=)|(?<=token=))[\"']([^\"'\n]{6,200})[\"']", 0).finditer(
            text, call.end(), max(stop, call.end())
        ):
            if _tells(argument[1], call[1], IF_MIXED if call[1] in LOGIN_CALLS else IF_UNUSUAL, quoted=True):
                yield argument.span(1)


def _addresses(text: str) -> Iterator[Place]:
    for mark in compiled(r"([A-Za-z][A-Za-z0-9+.-]{0,30})?(?::(?:\\{0,2}/){2}|%3[aA]%2[fF]%2[fF])", 0).finditer(text):
        start = mark.end()
        user = compiled(r"(?:[^\s/?#\"'<>`\\]*@|[^\s/?#\"'<>`%&]*%40)", 0).match(text, start)
        if user is None:  # a password with a slash in it
            user = compiled(
                r"[^\s/?#\"'<>`@:]{0,64}:(?!\d{1,5}(?:[/?#]|\b))[^\s\"'<>`@]{1,128}@(?=[\w.-]{1,100}(?:[:/]|\b))", 0
            ).match(text, start)
        if user is None:
            cut = compiled(r"[^\s/?#\"'<>`@:]{0,64}:(?!\d{0,5}(?:[.,;:)\]]|\Z))([^\s/?#\"'<>`@]{1,256})\Z", 0).match(
                text, start
            )
            if cut is not None and not _is_literal(cut[1], ""):
                yield cut.span(1)  # the text was cut off before the @
            continue
        if ":" in user[0] and (rest := compiled(r"[^\s/\"'<>`]{1,128}@(?=[\w-])", 0).match(text, user.end())):
            user = rest  # a password with a number sign or a question mark in it
        end = user.end() - (1 if user[0].endswith("@") else 3)
        name, colon, password = text[start:end].partition(":")
        if colon and _is_literal(password, "") and not password.isdigit():
            continue
        scheme = (mark[1] or "").lower()
        if not colon and (
            _is_literal(name, "") or HIDDEN in name or (not scheme.startswith("http") and not _is_random(name, _RANDOM))
        ):
            continue
        if start < end:
            yield start, end


@cache
def _programs() -> re.Pattern[str]:
    names = sorted(_options(), key=len, reverse=True)
    return re.compile("|".join(rf"{name}(?<![\w.]{name})(?<![^\n\x1e]-{name})(?![\w.=:-])" for name in names))


@cache
def _options() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    known: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for programs, options, how in COMMANDS:
        for program in programs.split():
            known.setdefault(program, []).append((tuple(options.split()), how))
    return known


def _arguments(text: str) -> Iterator[Place]:
    """What follows an option that takes a password, in a shell line or a list of words, until the command ends."""
    hits = list(_programs().finditer(text))
    for number, hit in enumerate(hits):
        limit = hits[number + 1].start() if number + 1 < len(hits) else len(text)
        start = hit.end() + (text[hit.end() : hit.end() + 1] in {"'", '"'})
        words: list[Place] = []
        for word in _words(text, start, min(limit, start + _LONGEST_COMMAND)):
            if word[0] in {";", "|", "&", "\n"}:
                break
            quoted = word[0][:1] in {"'", '"'} and len(word[0]) > 1
            words.append((word.start() + quoted, word.end() - quoted))
        for options, how in _options()[hit[0]]:
            yield from _taken(text, words, options, how)


def _words(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """The words of a shell line."""
    while start < end:
        word = compiled(_ARGUMENT, 0).match(text, start, end)
        start = word.end() if word is not None else start + 1
        if word is not None:
            yield word


def _taken(text: str, words: list[Place], options: tuple[str, ...], how: str) -> Iterator[Place]:
    """The words that an option takes, as ``how`` says."""
    told = [text[start:end] for start, end in words]
    first = how.partition(" ")[0]
    if first in {"login", "set"}:
        if first not in told:
            return
        words, told = words[told.index(first) :], told[told.index(first) :]
    for number, (word, (start, end)) in enumerate(zip(told, words, strict=True)):
        following = words[number + 1] if number + 1 < len(words) else None
        if "word" in how:
            if number and not word.startswith("-") and "://" not in word and len(word) >= _UNUSUAL and not _is_word(word):
                yield start, end
                if "words" not in how:
                    return
            continue
        option = next(
            (option for option in options if word == option or ("joined" in how and word.startswith(option))), None
        )
        if (
            "pair" in how
            and (given := compiled(r"(--[a-z-]+=|-[uU](?=[^\s:]+:))(.+)", 0).fullmatch(word))
            and given[1].rstrip("=") in options
        ):
            yield end - len(given[2]), end
        elif option is not None and word != option and not _is_literal(word[len(option) :], "pass"):
            yield start + len(option), end
        elif option is not None and word == option and following and how != "joined":
            value = text[following[0] : following[1]]
            if (
                value
                and not compiled(_FLAG, 0).match(value)
                and not _is_literal(value, "")
                and ("pair" not in how or _is_pair(value))
            ):
                yield following


def _is_word(value: str) -> bool:
    return _is_literal(value, "key") or compiled(_VARIABLE, 0).fullmatch(value) is not None


def _is_pair(value: str) -> bool:
    """``user:password``; a token may stand alone."""
    return any(mark in value for mark in ":,%") or _is_random(value, _RANDOM)
