"""Finds keys that nothing reads, in the parsed file, so that invalid files get these hints too."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from mcp_tools_proxy.config.field_types import keys_of
from mcp_tools_proxy.config.json_file import Location, children_of, json_path
from mcp_tools_proxy.config.schema import (
    AgentEntry,
    AgentsFile,
    ConfigurationFile,
    PresetFile,
    PromptReference,
    ResourceReference,
    ToolReference,
    is_of_others,
    means_guards,
    means_overrides,
    meant_key,
)
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

_OF_THE_MODEL = "is for the LLM runtime and is ignored here"
_PRESETS = "is ignored: allow items in a preset, or hide them with exclude in the entry"

OF_AGENT: Mapping[str, str] = dict.fromkeys(
    (
        *("auto", "description", "include_history", "llm", "llm_config_id", "max_iterations"),
        *("max_tokens", "model", "system_prompt", "temperature"),
    ),
    _OF_THE_MODEL,
)
"""Advice for unknown keys of a profile in agents.json.

Misspelt keys that would narrow a profile are refused instead: ``schema.MISSPELT``.
"""

OF_ROOT: Mapping[str, str] = {
    **dict.fromkeys(
        ("clients", "mcp_servers", "servers"),
        'is called "mcpServers" here: an object with each server under its id',
    ),
    "agents": "belongs in the file agents.json",
    "authorizationTimeoutSeconds": "is ignored: the command login waits for 10 minutes",
    "connectionRetryCount": "is ignored: the gateway retries until the server is available",
    "fallbackPromptsAndResourcesToTools": (
        "is ignored: prompts and resources are not offered as tools; use the methods of MCP, or "
        "/internal/mcp/prompts and /internal/mcp/resources. Leave prompts and resources out of a "
        "preset to allow all those of its servers"
    ),
    "inboundSsePort": "is ignored: set MCP_PROXY_PORT",
    "showTrayIcon": "is ignored: the gateway has a console, not a tray icon",
}
"""Advice for unknown keys of the root of mcp.json."""

OF_SERVER: Mapping[str, str] = {
    "server_path": (
        'is ignored: write "command": "python" and "args": ["<path of the server>"]; a relative '
        'path counts from "cwd"'
    ),
    **dict.fromkeys(
        ("endpoint", "httpUrl", "http_endpoint", "serverUrl", "server_url"), 'is called "url" here'
    ),
    **dict.fromkeys(
        ("transportType", "transport_type"),
        'is called "transport" here: "stdio", "http", "streamable-http", "sse" or "ws"',
    ),
    "client_id": "is ignored: the server's id is its key in mcpServers",
    "timeout": 'is called "requestTimeoutSeconds" here, in seconds',
    "registration_timeout": 'is called "connectTimeoutSeconds" here',
    "gcp_secrets": 'is ignored: set variables, and write ${NAME} in "env" or "headers"',
    **dict.fromkeys(("allowedTools", "capabilities", "tools"), _PRESETS),
}
"""Advice for unknown keys of a server's entry in mcp.json."""

NARROWING = (
    *("exclude", "enabled", "disabled", "bind", "bindRequired"),
    *("forward", "assertion", "isolation", "discoveryCaller", "sandbox", "guards"),
)
"""The keys of a server's entry that restrict it, or that tell it who calls."""

_BINDING = frozenset(("binding", "bindings", "binds", "bound"))

_GUARDING = frozenset(("guarded", "guardrails"))

_CASEFOLDED = {key.casefold(): key for key in NARROWING}

_EXCLUDING = frozenset(
    (
        *("blockedTools", "disabledTools", "disabled_tools", "excludeComponents", "excludeTools"),
        *("exclude_components", "exclude_tools"),
    )
)
"""Names of ``exclude`` in other products."""

_MIN_SIMILARITY = 0.7
"""Least similarity (of 1) of a misspelt key to the right one: two slips in seven letters."""


def narrowing_key(key: str, value: object) -> str | None:
    """Return the restricting key that ``key`` misspells, None if there is none."""
    if key in _EXCLUDING:
        return "exclude" if value else None
    if key.casefold().startswith("exclu"):
        return "exclude"
    if key.casefold() in _BINDING:
        return "bind"
    if key.casefold() in _GUARDING:
        return "guards"
    meant = closest_match(key.casefold(), _CASEFOLDED, least=_MIN_SIMILARITY)
    return None if meant is None else _CASEFOLDED[meant]


def refusal_text(key: str, meant: str) -> str:
    """Return why an entry with a misspelt restricting key is not used."""
    return (
        f"{quote(key)} is not a known key; did you mean {quote(meant)}? The entry is not used "
        "until this is fixed, because it could expose more than intended"
    )


def advice_for(key: str, advice: Mapping[str, str], known: Iterable[str]) -> str:
    """Return the message for a key that nothing reads, with the key that may be meant."""
    known_advice = advice.get(key)
    if known_advice is not None:
        return known_advice
    hint = did_you_mean(closest_match(key, known, least=_MIN_SIMILARITY), ", so it is ignored")
    return f"{quote(key)} is not a known key{hint}"


MAX_PLACES = 3
"""How many further places one message lists."""

Oddity = tuple[Location, str]
"""A place in a file, and the message about it."""


@dataclass(frozen=True, slots=True)
class ExpectedKeys:
    """The keys that an object may have: those of its model, and of the objects below some keys."""

    model: type[BaseModel]
    advice: Mapping[str, str] = field(default_factory=dict)
    below: Mapping[str, "ExpectedKeys"] = field(default_factory=dict)
    """Key → the keys of each item of its list, or of each value of its object."""
    is_reported: Callable[[str], bool] = lambda _: True
    """Whether an unknown key is reported here; False for one that the model itself refuses."""


SERVER = ExpectedKeys(ServerEntry, OF_SERVER)
CONFIGURATION = ExpectedKeys(ConfigurationFile, OF_ROOT, {"mcpServers": SERVER})
_AGENT = ExpectedKeys(
    AgentEntry, OF_AGENT, is_reported=lambda key: meant_key(key) is None and not is_of_others(key)
)
AGENTS = ExpectedKeys(AgentsFile, {}, {"agents": _AGENT})


def _is_reported_in_preset(key: str) -> bool:
    return not means_overrides(key)


def _reference(model: type[BaseModel]) -> ExpectedKeys:
    return ExpectedKeys(model, is_reported=_is_reported_in_preset)


PRESET = ExpectedKeys(
    PresetFile,
    {},
    {
        "tools": _reference(ToolReference),
        "prompts": _reference(PromptReference),
        "resources": _reference(ResourceReference),
    },
    is_reported=lambda key: not (means_overrides(key) or means_guards(key)),
)


def unknown_keys(expected: ExpectedKeys, written: object, place: Location = ()) -> Iterator[Oddity]:
    """Yield each key that nothing reads; a value that should be an object and is not has none."""
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
    """Build one problem of all oddities with the same message, with the first places."""
    places: dict[str, list[Location]] = {}
    for place, message in oddities:
        places.setdefault(message, []).append(place)
    return [
        Problem(file=file_name, path=json_path(first), message=message + also_at(others))
        for message, (first, *others) in places.items()
    ]


def also_at(others: Sequence[Location]) -> str:
    """Return the end of a message that holds at further places as well."""
    if not others:
        return ""
    shown = ", ".join(json_path(place) for place in others[:MAX_PLACES])
    if len(others) <= MAX_PLACES:
        return f" (also at {shown})"
    return f" (also at {len(others)} more places, such as {shown})"
