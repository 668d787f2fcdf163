"""Keys that nothing reads, found in a file as it is written: also where the file is refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from mcp_tools_proxy.config.json_file import Location, json_path, parts_of
from mcp_tools_proxy.config.near_miss_keys import OF_AGENT, OF_ROOT, OF_SERVER, what_to_do
from mcp_tools_proxy.config.schema import (
    AgentEntry,
    AgentsFile,
    ConfigurationFile,
    PresetFile,
    PromptReference,
    ResourceReference,
    ToolReference,
    meant_key,
)
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.domain.configuration import Problem

PLACES_TOLD = 3
"""How many further places one message tells."""

Oddity = tuple[Location, str]
"""Where something is odd, and what."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an object may hold: the keys of its model, and below some of them others."""

    model: type[BaseModel]
    advice: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, "Expected"] = field(default_factory=dict)
    """Key → what each item of its list, or each value of its object, is."""
    is_told: Callable[[str], bool] = lambda _: True
    """Whether a key that nothing reads is told here; False for what the model itself refuses."""


SERVER = Expected(ServerEntry, OF_SERVER)
CONFIGURATION = Expected(ConfigurationFile, OF_ROOT, {"mcpServers": SERVER})
_AGENT = Expected(AgentEntry, OF_AGENT, is_told=lambda key: meant_key(key) is None)
AGENTS = Expected(AgentsFile, {}, {"agents": _AGENT})
PRESET = Expected(
    PresetFile,
    {},
    {
        "tools": Expected(ToolReference),
        "prompts": Expected(PromptReference),
        "resources": Expected(ResourceReference),
    },
)


def unknown_keys(expected: Expected, written: object, place: Location = ()) -> Iterator[Oddity]:
    """Tell of each key that nothing reads; what is no object where one should be has none."""
    if not isinstance(written, Mapping):
        return
    known = [info.alias or name for name, info in expected.model.model_fields.items()]
    for key, value in written.items():
        if key not in known and expected.is_told(key) and (key != "$schema" or place):
            yield (*place, key), what_to_do(key, expected.advice, known)
        if key in known and (below := expected.below.get(key)):
            for step, part in parts_of(value):
                yield from unknown_keys(below, part, (*place, key, step))


def joined(file_name: str, oddities: Iterable[Oddity]) -> list[Problem]:
    """Make one problem of all that say the same, with the first places where it is so."""
    places: dict[str, list[Location]] = {}
    for place, message in oddities:
        places.setdefault(message, []).append(place)
    return [
        Problem(file=file_name, path=json_path(first), message=message + also_at(others))
        for message, (first, *others) in places.items()
    ]


def also_at(others: Sequence[Location]) -> str:
    """Say at which further places the same is so, to stand at the end of a message."""
    if not others:
        return ""
    told = ", ".join(json_path(place) for place in others[:PLACES_TOLD])
    if len(others) <= PLACES_TOLD:
        return f" (also at {told})"
    return f" (also at {len(others)} more places, such as {told})"
