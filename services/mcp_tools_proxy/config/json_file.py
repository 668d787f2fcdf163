"""Reads and edits one configuration file: strict JSON, problems located by JSON path."""

import json
import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import first_of, problem_of
from mcp_tools_proxy.wire.text import quote

MAX_FILE_BYTES = 4 * 1024 * 1024


MAX_DEPTH = 64
"""Maximum nesting of objects and lists, as in requests (contract §1)."""


MAX_PROBLEMS = 100
"""Problems of one file that are reported individually."""


_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


Location = tuple[int | str, ...]
"""The keys and indexes on the path from the root to a value."""

Fault = tuple[Location, str]
"""A place in an entry, and the message about it."""


FaultT = TypeVar("FaultT")


T = TypeVar("T")


def read_json(path: Path, *, comments: bool = False) -> dict[str, object]:
    """Read the JSON object of a file; a byte-order mark is skipped. Blocks.

    Raises FileNotFoundError, and InvalidConfig for a file that is unreadable, too large, or not
    strict UTF-8 JSON.
    """
    return parse_json(path.name, read_text(path), comments=comments)


def read_if_there(path: Path, *, comments: bool = False) -> dict[str, object] | None:
    """Read an optional file; None if it does not exist. Raises InvalidConfig.

    A dangling symbolic link (an unmounted volume) is an invalid file, not an absent one: without
    agents.json, all callers would be unrestricted.
    """
    try:
        return read_json(path, comments=comments)
    except FileNotFoundError:
        if path.is_symlink():
            raise InvalidConfig((dangling_link(path),)) from None
        return None


def dangling_link(path: Path) -> Problem:
    """Return the problem of a dangling symbolic link."""
    return Problem(file=path.name, path="$", message="is a broken symbolic link")


def load_or_keep_last_good(
    load: Callable[[], T], before: T | None, *, absent: T, file: str
) -> tuple[T | None, tuple[Problem, ...]]:
    """Load an optional file; return its active version, and the problems of the current file.

    ``before`` is the last valid version, if any. ``load`` returns the object ``absent`` for a
    missing file.
    """
    try:
        found = load()
    except InvalidConfig as error:
        return before, error.problems
    if found is absent and before is not None and before is not absent:
        message = "was removed; its last valid content stays active"
        return before, (Problem(file=file, path="$", message=message),)
    return found, ()


def read_text(path: Path) -> str:
    """Read a file as UTF-8, keeping line ends and byte-order mark. Raises like ``read_json``."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unusable(path.name, "is not a file")  # reading a pipe would block for a writer
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path.name, f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise _unusable(path.name, f"is over {MAX_FILE_BYTES} bytes, the limit")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise _unusable(path.name, f"is not UTF-8: byte {error.start} is invalid") from error


def parse_json(file_name: str, text: str, *, comments: bool = False) -> dict[str, object]:
    """Parse the text of a file. Raises InvalidConfig like ``read_json``.

    ``comments`` allows comments and trailing commas.
    """
    text = (strict_json(text) if comments else text).removeprefix("\ufeff")
    if not text.strip():
        raise _unusable(file_name, "is empty; it should contain at least {}")
    try:
        parsed = json.loads(text, object_pairs_hook=_JsonObject, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        hint = "; is there a comma too many?" if _is_after_comma(text, error.pos) else ""
        raise _unusable(file_name, f"is not valid JSON: {error.msg} ({where}){hint}") from error
    except RecursionError as error:
        raise _unusable(file_name, _TOO_DEEP) from error
    except ValueError as error:  # NaN and the like, or an integer of over 4300 digits
        reason = str(error).partition(";")[0]
        raise _unusable(file_name, f"is not valid JSON: {reason}") from error
    if not isinstance(parsed, dict):
        raise _unusable(file_name, "should be a JSON object")
    if problems := list(_strict_problems(file_name, parsed, ())):
        raise InvalidConfig(limit_problems(file_name, problems))
    return parsed


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|//[^\r\n]*|/\*.*?\*/|[^\s"/]|/', re.DOTALL)


_NOT_LINE_ENDS = re.compile(r"[^\r\n]")


_BEFORE_NO_COMMA = ("", "{", "[", ",", ":")


def strict_json(text: str) -> str:
    """Return JSON with spaces in place of comments and trailing commas.

    Other text keeps its position, for error messages and edits that keep comments.
    """
    pieces, end, before, comma = [], 0, "", -1
    for found in _TOKEN.finditer(text):
        pieces.append(text[end : found.start()])
        piece, end = found[0], found.end()
        if piece.startswith(("//", "/*")):
            pieces.append(_NOT_LINE_ENDS.sub(" ", piece))
            continue
        if piece in ("}", "]") and comma >= 0:
            pieces[comma] = " "
        pieces.append(piece)
        comma = len(pieces) - 1 if piece == "," and before not in _BEFORE_NO_COMMA else -1
        before = piece
    return "".join((*pieces, text[end:]))


def json_path(location: Location) -> str:
    """Return the JSON path of a place: ``$.mcpServers.notes.args[2]``, ``$.mcpServers["a b"]``."""
    return "$" + "".join(_step(step) for step in location)


_JSON_PATH_STEP = re.compile(r'\.([^.\[]+)|\[((?:[^"\]]|"(?:[^"\\]|\\.)*")*)\]')


def steps_of(path: str) -> list[str]:
    """Return the steps of a path by ``json_path``, without quotes; a filter is one step."""
    return [name or inner.strip('"') for name, inner in _JSON_PATH_STEP.findall(path)]


def problems_of(file_name: str, error: ValidationError) -> tuple[Problem, ...]:
    """Convert all errors of a pydantic model to problems, without the values."""
    errors = error.errors(include_url=False, include_input=False)
    return limit_problems(file_name, [problem_of_error(file_name, it) for it in errors])


def problem_of_error(file_name: str, error: ErrorDetails) -> Problem:
    """Convert one error of a pydantic model to a problem, without the value."""
    return Problem(file=file_name, path=json_path(_place(error)), message=_message(error))


def limit_problems(file_name: str, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the first MAX_PROBLEMS problems of a file, and the number of others."""
    return first_problems(file_name, problems, lambda problem: problem)


def first_problems(
    file_name: str, faults: Sequence[FaultT], build: Callable[[FaultT], Problem]
) -> tuple[Problem, ...]:
    """Build problems of the first MAX_PROBLEMS faults, and count the others."""
    return first_of(
        faults,
        MAX_PROBLEMS,
        build,
        lambda count: Problem(file=file_name, path="$", message=f"has {count} more problems"),
    )


class _JsonObject(dict[str, object]):
    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        times = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in times.items() if count > 1]


_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"


def _is_after_comma(text: str, at: int) -> bool:
    return text[:at].rstrip().endswith(",")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _strict_problems(file_name: str, value: object, place: Location) -> Iterator[Problem]:
    """Yield violations of rules that the json module does not check.

    These are repeated keys, lone surrogates, and nesting over MAX_DEPTH.
    """

    def problem(message: str) -> Problem:
        return Problem(file=file_name, path=json_path(place), message=message)

    if len(place) >= MAX_DEPTH and isinstance(value, dict | list):
        yield problem(_TOO_DEEP)
        return
    if isinstance(value, str) and _has_lone_surrogate(value):
        yield problem("holds half of a surrogate pair, which is not a character")
    if isinstance(value, _JsonObject):
        for key in value.repeated:
            yield problem(f"names {quote(key)} twice; keep one of them")
    for step, part in children_of(value):
        if isinstance(step, str) and _has_lone_surrogate(step):
            yield problem("has a key with half of a surrogate pair, which is not a character")
        else:
            yield from _strict_problems(file_name, part, (*place, step))


def children_of(value: object) -> Iterable[tuple[int | str, object]]:
    """Return the values of an object or list with their keys or indexes; () for other values."""
    match value:
        case dict():
            return value.items()
        case list():
            return enumerate(value)
    return ()


def _has_lone_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _step(step: int | str) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) and len(step) <= 64 else f"[{quote(step)}]"


def _place(error: ErrorDetails) -> Location:
    """Return the place of an error; an invalid key is located at its own entry."""
    location = error["loc"]
    return location[:-1] if location and location[-1] == "[key]" else location


def _message(error: ErrorDetails) -> str:
    return problem_of(error).removeprefix("input ")


def _unusable(file_name: str, message: str) -> InvalidConfig:
    return InvalidConfig((Problem(file=file_name, path="$", message=message),))


_DECODER = json.JSONDecoder()


_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """The position of one ``"key": value`` of the root object, as character offsets."""

    key: str
    key_start: int
    key_end: int
    value_start: int
    value_end: int


def with_key(text: str, key: str, value: str) -> str:
    """Return ``text``, a valid JSON object, with the root's ``key`` set to ``value``.

    A new key is added at the end, with the indentation of the first one. Comments stay.
    """
    strict = strict_json(text)
    members = list(_members(strict))
    encoded = json.dumps(value, ensure_ascii=False)
    for member in members:
        if member.key == key:
            return text[: member.value_start] + encoded + text[member.value_end :]
    brace = strict.index("{")
    if not members:
        return f"{text[: brace + 1]}{json.dumps(key)}: {encoded}{text[brace + 1 :]}"
    first, last = members[0], members[-1]
    indent = strict[brace + 1 : first.key_start]
    if indent != text[brace + 1 : first.key_start]:  # a comment is not repeated
        indent = f"\n{indent.rpartition(chr(10))[2]}"
    colon = strict[first.key_end : first.value_start]
    added = f",{indent}{json.dumps(key)}{colon}{encoded}"
    return text[: last.value_end] + added + text[last.value_end :]


def _members(text: str) -> Iterator[_Member]:
    at = _past_space(text, text.index("{") + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        value_start = _past_space(text, _past_space(text, key_end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        yield _Member(
            key=key, key_start=at, key_end=key_end, value_start=value_start, value_end=value_end
        )
        at = _past_space(text, value_end)
        if text[at] == ",":
            at = _past_space(text, at + 1)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
