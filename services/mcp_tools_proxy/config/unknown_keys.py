"""Finds unknown keys in the parsed file, so that invalid files get these hints too."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from mcp_tools_proxy.config.field_types import keys_of
from mcp_tools_proxy.config.json_file import (
    Location,
    children_of,
    json_path,
    limit_problems,
    problems_of,
)
from mcp_tools_proxy.domain.configuration import (
    InvalidConfig,
    Problem,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

MIN_SIMILARITY = 0.7
"""Minimum similarity (of 1) of a misspelt key to the right one: two slips in seven letters."""


def advice_for(key: str, advice: Mapping[str, str], known: Iterable[str]) -> str:
    """Return the message for an unknown key, with a suggestion."""
    known_advice = advice.get(key)
    if known_advice is not None:
        return known_advice
    hint = did_you_mean(closest_match(key, known, least=MIN_SIMILARITY), ", so it is ignored")
    return f"{quote(key)} is not a known key{hint}"


MAX_PLACES = 3
"""Additional places listed in one message."""

Oddity = tuple[Location, str]
"""A place in a file, and the message about it."""


@dataclass(frozen=True, slots=True)
class ExpectedKeys:
    """The keys of an object: those of its model, and of the objects below some keys."""

    model: type[BaseModel]
    advice: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, "ExpectedKeys"] = field(default_factory=dict)
    """Key → the keys of each item of its list, or of each value of its object."""
    is_reported: Callable[[str], bool] = lambda _: True
    """Whether an unknown key is reported here; False for keys that the model refuses."""


def unknown_keys(expected: ExpectedKeys, written: object, place: Location = ()) -> Iterator[Oddity]:
    """Yield each unknown key; values of a wrong type are skipped."""
    if not isinstance(written, Mapping):
        return
    known = keys_of(expected.model)
    for key, value in written.items():
        if key not in known and expected.is_reported(key) and (key != "$schema" or place):
            yield (*place, key), advice_for(key, expected.advice, known)
        if key in known and (below := expected.below.get(key)):
            for step, part in children_of(value):
                yield from unknown_keys(below, part, (*place, key, step))


def group_oddities(file_name: str, oddities: Iterable[Oddity]) -> list[Problem]:
    """Build one problem per message, with the first places."""
    places: dict[str, list[Location]] = {}
    for place, message in oddities:
        places.setdefault(message, []).append(place)
    return [
        Problem(file=file_name, path=json_path(first), message=message + also_at(others))
        for message, (first, *others) in places.items()
    ]


def also_at(others: Sequence[Location]) -> str:
    """Return the end of a message that also applies to further places."""
    if not others:
        return ""
    shown = ", ".join(json_path(place) for place in others[:MAX_PLACES])
    if len(others) <= MAX_PLACES:
        return f" (also at {shown})"
    return f" (also at {len(others)} more places, such as {shown})"


def duplicate_names(
    file_name: str, section: Literal["agents", "rules"], names: Iterable[str]
) -> tuple[Problem, ...]:
    """Return a problem for each entry of a section with the name of an earlier one."""
    first: dict[str, int] = {}
    problems = []
    for index, name in enumerate(names):
        other = first.setdefault(name, index)
        if other != index:
            item = section.removesuffix("s")
            message = f"is also the name of $.{section}[{other}]; give each {item} its own"
            path = json_path((section, index, "name"))
            problems.append(Problem(file=file_name, path=path, message=message))
    return limit_problems(file_name, problems)


def warnings_of(file_name: str, oddities: Iterable[Oddity]) -> tuple[Problem, ...]:
    """Return a warning for each message, at most MAX_PROBLEMS."""
    return limit_problems(file_name, group_oddities(file_name, oddities))


ModelT = TypeVar("ModelT", bound=BaseModel)


def validated(
    model: type[ModelT], expected: ExpectedKeys, file_name: str, written: object
) -> ModelT:
    """Validate a file as a whole. Raises InvalidConfig, whose problems include unknown keys."""
    try:
        return model.model_validate(written)
    except ValidationError as error:
        odd = group_oddities(file_name, unknown_keys(expected, written))
        problems = (*problems_of(file_name, error), *odd)
        raise InvalidConfig(limit_problems(file_name, problems)) from error
