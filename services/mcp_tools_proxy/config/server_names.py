"""Server names of mcp.json that cannot be ids: Claude Desktop's users have "My Server"."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mcp_tools_proxy.config.field_types import ID_RULE
from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem
from mcp_tools_proxy.wire.identifiers import server_id_of

SERVERS = "mcpServers"

Written = Mapping[str, object]
"""The parsed file, before validation and before variables are replaced."""


def derived_names(file_name: str, written: Written) -> Mapping[str, str]:
    """Return the names of the servers that have a derived id, by that id.

    Raises InvalidConfig if the file has that id as well.
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
    """Return problems with the places as the file has them, and the ids in the messages."""
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
