"""Validates mcp.json entry by entry: a fault in one server's entry affects only that server.

A server's name that is not a valid id, such as "My Server", is replaced by a derived id.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.config.auth_entry import unknown_auth_key
from mcp_tools_proxy.config.entry_rules import (
    IdentitySupport,
    NetworkSupport,
    StdioSupport,
    caller_faults,
    network_faults,
    stdio_faults,
)
from mcp_tools_proxy.config.field_types import ID_RULE, keys_of
from mcp_tools_proxy.config.json_file import (
    Fault,
    json_path,
    limit_problems,
    problem_of_error,
)
from mcp_tools_proxy.config.schema import ConfigurationFile
from mcp_tools_proxy.config.server_entry import ServerEntry, unknown_sandbox_key
from mcp_tools_proxy.config.unknown_keys import (
    MIN_SIMILARITY,
    ExpectedKeys,
    group_oddities,
    unknown_keys,
)
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.problem_texts import closest_match
from mcp_tools_proxy.wire.text import quote

SERVERS = "mcpServers"
_KNOWN = frozenset(keys_of(ServerEntry))

Written = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfiguration:
    """The file without the invalid entries, and their problems by server id."""

    file: ConfigurationFile
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def check_configuration(
    file_name: str,
    written: Written,
    environment: Mapping[str, str],
    identity: IdentitySupport,
    stdio: StdioSupport,
    network: NetworkSupport,
) -> CheckedConfiguration:
    """Validate a parsed mcp.json. Raises InvalidConfig for a fault outside of the entries."""
    found = _refused_keys(file_name, written)
    try:
        file = ConfigurationFile.model_validate(written, context=environment)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        if any(_server_of(it) is None for it in errors):
            problems = [problem_of_error(file_name, it) for it in errors]
            problems += group_oddities(file_name, unknown_keys(CONFIGURATION, written))
            raise InvalidConfig(limit_problems(file_name, problems)) from error
        for it in errors:
            found.setdefault(_server_of(it) or "", []).append(_entry_problem(file_name, it))
        file = ConfigurationFile.model_validate(drop_entries(written, found), context=environment)

    def faults_of(entry: ServerEntry) -> Iterable[Fault]:
        if not entry.is_enabled:
            return
        yield from caller_faults(entry, identity)
        yield from stdio_faults(entry, stdio)
        yield from network_faults(entry, network)

    found = _with_faults(file_name, file, found, faults_of)
    if found:
        file = ConfigurationFile.model_validate(drop_entries(written, found), context=environment)
    return CheckedConfiguration(
        file=file,
        invalid={
            server_id: limit_problems(
                file_name, _with_unknown_keys(file_name, written, server_id, wrong)
            )
            for server_id in _entries(written)
            if (wrong := found.get(server_id))
        },
    )


def drop_entries(written: Written, server_ids: Mapping[str, object]) -> Written:
    """Return the file without the entries of these servers."""
    remaining = {key: entry for key, entry in _entries(written).items() if key not in server_ids}
    return {**written, SERVERS: remaining}


def entry_ids(written: Written) -> Iterable[str]:
    """Return the ids of all servers, in the file's order."""
    return _entries(written)


def _refused_keys(file_name: str, written: Written) -> dict[str, list[Problem]]:
    """Return the problems of entries with a misspelt restricting key."""
    found: dict[str, list[Problem]] = {}
    for server_id, entry in _entries(written).items():
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            meant = None if key in _KNOWN else narrowing_key(key, value)
            if meant is not None:
                path = json_path((SERVERS, server_id, key))
                problem = Problem(file=file_name, path=path, message=refusal_text(key, meant))
                found.setdefault(server_id, []).append(problem)
    return found


def _entry_problem(file_name: str, error: ErrorDetails) -> Problem:
    place = error["loc"]
    message = None
    if error["type"] == "extra_forbidden":
        message = unknown_auth_key(place) or unknown_sandbox_key(place)
    if message is None:
        return problem_of_error(file_name, error)
    return Problem(file=file_name, path=json_path(place), message=message)


def _with_faults(
    file_name: str,
    file: ConfigurationFile,
    found: dict[str, list[Problem]],
    faults_of: Callable[[ServerEntry], Iterable[Fault]],
) -> dict[str, list[Problem]]:
    """Add the problems of valid entries that the settings or this machine do not support."""
    for server_id, entry in file.mcp_servers.items():
        for place, message in faults_of(entry):
            path = json_path((SERVERS, server_id, *place))
            problem = Problem(file=file_name, path=path, message=message)
            found.setdefault(server_id, []).append(problem)
    return found


def _with_unknown_keys(
    file_name: str, written: Written, server_id: str, problems: list[Problem]
) -> list[Problem]:
    """Add the unknown keys of an entry, because a missing key can be among them, misspelt."""
    place = (SERVERS, server_id)
    odd = group_oddities(file_name, unknown_keys(SERVER, _entries(written)[server_id], place))
    known = {problem.path for problem in problems}
    return problems + [problem for problem in odd if problem.path not in known]


def _entries(written: Written) -> Mapping[str, object]:
    entries = written.get(SERVERS)
    return entries if isinstance(entries, Mapping) else {}


def _server_of(error: ErrorDetails) -> str | None:
    match error["loc"]:
        case (first, str(server_id), *_) if first == SERVERS:
            return server_id
    return None


def derived_names(file_name: str, written: Written) -> Mapping[str, str]:
    """Return the names of the servers with a derived id, by that id.

    Raises InvalidConfig if another server has the same id.
    """
    found = written.get(SERVERS)
    entries = found if isinstance(found, Mapping) else {}
    names: dict[str, str] = {}
    for name in entries:
        server_id = server_id_of(name)
        if server_id == name:
            continue
        if server_id in entries or server_id in names:
            message = f"has the derived id {server_id}, which another server has; rename one"
            path = json_path((SERVERS, name))
            raise InvalidConfig((Problem(file=file_name, path=path, message=message),))
        names[server_id] = name
    return names


def with_ids(written: Written, names: Mapping[str, str]) -> Written:
    """Return the file with each server under its id."""
    entries = written.get(SERVERS)
    if not names or not isinstance(entries, Mapping):
        return written
    return {**written, SERVERS: {server_id_of(name): entry for name, entry in entries.items()}}


def at_names(problems: Iterable[Problem], names: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return problems with the paths of the original file, and the ids in the messages."""
    return tuple(_at_name(problem, names) for problem in problems)


def _at_name(problem: Problem, names: Mapping[str, str]) -> Problem:
    for server_id, name in names.items():
        place = json_path((SERVERS, server_id))
        rest = problem.path.removeprefix(place)
        if rest != problem.path and rest[:1] in ("", ".", "["):
            path = json_path((SERVERS, name)) + rest
            return replace(problem, path=path, message=f"{problem.message} (server {server_id})")
    return problem


def name_warnings(file_name: str, names: Mapping[str, str]) -> Iterable[Problem]:
    """Yield a warning with the derived id of each server."""
    for server_id, name in names.items():
        yield Problem(
            file=file_name,
            path=json_path((SERVERS, name)),
            message=f"has the id {server_id} here: an id {ID_RULE}. Presets may use either name",
        )


_PRESETS = "is ignored: allow items in a preset, or hide them with exclude in the entry"


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
"""Keys of a server's entry that restrict it, or identify the caller to it."""


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


def narrowing_key(key: str, value: object) -> str | None:
    """Return the restricting key that ``key`` misspells; None for other keys."""
    if key in _EXCLUDING:
        return "exclude" if value else None
    if key.casefold().startswith("exclu"):
        return "exclude"
    if key.casefold() in _BINDING:
        return "bind"
    if key.casefold() in _GUARDING:
        return "guards"
    meant = closest_match(key.casefold(), _CASEFOLDED, least=MIN_SIMILARITY)
    return None if meant is None else _CASEFOLDED[meant]


def refusal_text(key: str, meant: str) -> str:
    """Return the refusal message for a misspelt restricting key."""
    return (
        f"{quote(key)} is not a known key; did you mean {quote(meant)}? The entry is not used "
        "until this is fixed, because it could expose more than intended"
    )


SERVER = ExpectedKeys(ServerEntry, OF_SERVER)


CONFIGURATION = ExpectedKeys(ConfigurationFile, OF_ROOT, {"mcpServers": SERVER})
