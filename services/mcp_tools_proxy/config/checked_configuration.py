"""Validates mcp.json entry by entry: a fault in one server's entry affects that server alone."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.config.auth_entry import unknown_auth_key
from mcp_tools_proxy.config.field_types import keys_of
from mcp_tools_proxy.config.json_file import json_path, limit_problems, problem_of_error
from mcp_tools_proxy.config.network_rules import NetworkSupport, network_faults
from mcp_tools_proxy.config.sandbox_entry import unknown_sandbox_key
from mcp_tools_proxy.config.schema import ConfigurationFile
from mcp_tools_proxy.config.server_entry import ServerEntry
from mcp_tools_proxy.config.stdio_rules import StdioSupport, stdio_faults
from mcp_tools_proxy.config.texts.caller_rules import Fault, IdentitySupport, caller_faults
from mcp_tools_proxy.config.unknown_keys import (
    CONFIGURATION,
    SERVER,
    group_oddities,
    narrowing_key,
    refusal_text,
    unknown_keys,
)
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem

_SERVERS = "mcpServers"
_KNOWN = frozenset(keys_of(ServerEntry))

Written = Mapping[str, object]
"""The parsed file, before validation and before variables are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedConfiguration:
    """The file without the invalid entries, and the problems of those by server id."""

    file: ConfigurationFile
    invalid: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def check_configuration(
    file_name: str,
    written: Written,
    environment: Mapping[str, str],
    support: IdentitySupport | None = None,
    stdio: StdioSupport | None = None,
    network: NetworkSupport | None = None,
) -> CheckedConfiguration:
    """Validate a parsed mcp.json. Raises InvalidConfig for a fault outside of all entries."""
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
    support, stdio = support or IdentitySupport(), stdio or StdioSupport()
    network = network or NetworkSupport()

    def faults_of(entry: ServerEntry) -> Iterable[Fault]:
        if not entry.enabled or entry.disabled:
            return
        yield from caller_faults(entry, support)
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
    return {**written, _SERVERS: remaining}


def entry_ids(written: Written) -> Iterable[str]:
    """Return the ids of all servers, in the file's order."""
    return _entries(written)


def _refused_keys(file_name: str, written: Written) -> dict[str, list[Problem]]:
    """Return the problems of entries with a misspelt key that was meant to restrict the server."""
    found: dict[str, list[Problem]] = {}
    for server_id, entry in _entries(written).items():
        for key, value in entry.items() if isinstance(entry, Mapping) else ():
            meant = None if key in _KNOWN else narrowing_key(key, value)
            if meant is not None:
                path = json_path((_SERVERS, server_id, key))
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
            path = json_path((_SERVERS, server_id, *place))
            problem = Problem(file=file_name, path=path, message=message)
            found.setdefault(server_id, []).append(problem)
    return found


def _with_unknown_keys(
    file_name: str, written: Written, server_id: str, problems: list[Problem]
) -> list[Problem]:
    """Add the unknown keys of an entry: one of them may be the misspelt missing key."""
    place = (_SERVERS, server_id)
    odd = group_oddities(file_name, unknown_keys(SERVER, _entries(written)[server_id], place))
    known = {problem.path for problem in problems}
    return problems + [problem for problem in odd if problem.path not in known]


def _entries(written: Written) -> Mapping[str, object]:
    entries = written.get(_SERVERS)
    return entries if isinstance(entries, Mapping) else {}


def _server_of(error: ErrorDetails) -> str | None:
    """Return the server whose entry has the error, None for an error elsewhere."""
    match error["loc"]:
        case (first, str(server_id), *_) if first == _SERVERS:
            return server_id
    return None
