"""One configuration file as JSON: read strictly, and what is wrong with it told by JSON path."""

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
from mcp_tools_proxy.wire.problem_texts import problem_of
from mcp_tools_proxy.wire.text import quote

MAX_FILE_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
"""How deep objects and lists may lie in each other, as in requests (contract §1)."""

MAX_PROBLEMS = 100
"""How many problems of one file are told one by one."""

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")

Location = tuple[int | str, ...]
WrongT = TypeVar("WrongT")


def read_json(path: Path) -> dict[str, object]:
    """Read the JSON object that a file holds; a byte-order mark is skipped. Blocks.

    Raises FileNotFoundError, and InvalidConfig for all else that makes the file unusable: it cannot
    be read, is too large, is not UTF-8, is not strict JSON, names a key twice in one object.
    """
    return parse_json(path.name, read_text(path))


def read_text(path: Path) -> str:
    """Read a file as UTF-8, line ends and byte-order mark kept. Raises like ``read_json``."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _unusable(path.name, "is not a file")  # reading a pipe would wait for its writer
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
        raise _unusable(path.name, f"is not UTF-8: byte {error.start} is wrong") from error


def parse_json(file_name: str, text: str) -> dict[str, object]:
    """Parse the text of a file. Raises InvalidConfig like ``read_json``."""
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise _unusable(file_name, "is empty; the least it can hold is a JSON object")
    try:
        parsed = json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        hint = "; is there a comma too many?" if _is_after_comma(text, error.pos) else ""
        raise _unusable(file_name, f"is not valid JSON: {error.msg} ({where}){hint}") from error
    except RecursionError as error:
        raise _unusable(file_name, _TOO_DEEP) from error
    except ValueError as error:  # a constant that JSON has not, an integer of thousands of digits
        reason = str(error).partition(";")[0]
        raise _unusable(file_name, f"is not valid JSON: {reason}") from error
    if not isinstance(parsed, dict):
        raise _unusable(file_name, "should be a JSON object")
    if problems := list(_strictness(file_name, parsed, ())):
        raise InvalidConfig(limit_problems(file_name, problems))
    return parsed


def json_path(location: Location) -> str:
    """Spell a place: ``$.mcpServers.notes.args[2]``, ``$.mcpServers["a b"].url``."""
    return "$" + "".join(_step(step) for step in location)


def problems_of(file_name: str, error: ValidationError) -> tuple[Problem, ...]:
    """Tell everything that a model found wrong, without the values."""
    errors = error.errors(include_url=False, include_input=False)
    return limit_problems(file_name, [problem_of_error(file_name, it) for it in errors])


def problem_of_error(file_name: str, error: ErrorDetails) -> Problem:
    """Tell one thing that a model found wrong, without the value."""
    return Problem(file=file_name, path=json_path(_place(error)), message=_message(error))


def limit_problems(file_name: str, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Keep the first problems of a file that has very many."""
    return first_problems(file_name, problems, lambda problem: problem)


def first_problems(
    file_name: str, wrong: Sequence[WrongT], make: Callable[[WrongT], Problem]
) -> tuple[Problem, ...]:
    """Make a problem of each thing that is wrong with a file, of very many only of the first."""
    problems = tuple(make(it) for it in wrong[:MAX_PROBLEMS])
    left_out = len(wrong) - len(problems)
    if not left_out:
        return problems
    rest = Problem(file=file_name, path="$", message=f"has {left_out} more problems")
    return (*problems, rest)


class _Object(dict[str, object]):
    """A JSON object that knows which of its keys were given more than once."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        times = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in times.items() if count > 1]


_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"


def _is_after_comma(text: str, at: int) -> bool:
    return text[:at].rstrip().endswith(",")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _strictness(file_name: str, value: object, place: Location) -> Iterator[Problem]:
    """Tell what the json module lets pass: repeated keys, half characters, any depth."""

    def problem(message: str) -> Problem:
        return Problem(file=file_name, path=json_path(place), message=message)

    if len(place) >= MAX_DEPTH and isinstance(value, dict | list):
        yield problem(_TOO_DEEP)
        return
    if isinstance(value, str) and _has_half_character(value):
        yield problem("holds half of a surrogate pair, which is no character")
    if isinstance(value, _Object):
        for key in value.repeated:
            yield problem(f"names {quote(key)} twice; keep one of them")
    for step, part in parts_of(value):
        if isinstance(step, str) and _has_half_character(step):
            yield problem("has a key with half of a surrogate pair, which is no character")
        else:
            yield from _strictness(file_name, part, (*place, step))


def parts_of(value: object) -> Iterable[tuple[int | str, object]]:
    """Return what an object or a list holds, each with its key or index; nothing for the rest."""
    match value:
        case dict():
            return value.items()
        case list():
            return enumerate(value)
    return ()


def _has_half_character(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _step(step: int | str) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_KEY.fullmatch(step) and len(step) <= 64 else f"[{quote(step)}]"


def _place(error: ErrorDetails) -> Location:
    """Give the place of an error; what is wrong with a key is told at the entry of that key."""
    location = error["loc"]
    return location[:-1] if location and location[-1] == "[key]" else location


def _message(error: ErrorDetails) -> str:
    return problem_of(error).removeprefix("input ")


def _unusable(file_name: str, message: str) -> InvalidConfig:
    return InvalidConfig((Problem(file=file_name, path="$", message=message),))
