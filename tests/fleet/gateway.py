"""One gateway with the whole fleet behind it, and its servers' folders."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fleet.servers import SERVERS, make_folder
from tests.support.configuration import Config, make_preset, write_json
from tests.support.held_port import free_port
from tests.support.postgres_server import OWNER, PostgresServer
from tests.support.program import Program, started, wait_until
from tests.support.service import ACTIVE
from tests.support.service import SERVERS as SERVERS_ROUTE

Json = dict[str, Any]
START_S = 300.0
"""Dozens of servers start one after another, on a busy machine with two cores."""

ADMIN = "admin-token-of-the-fleet"
SETTINGS = {
    "MCP_PROXY_ADMIN_TOKEN": ADMIN,
    "MCP_PROXY_DEFAULT_TENANT_ID": "tenant_1",
    **{f"MCP_PROXY_RATE_LIMIT_{unit}": "0" for unit in ("CALLS", "TENANT_CALLS", "TENANT_TOKENS")},
}
"""Lists of the default settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The started gateway; ``values`` fill in its servers' entries, ``tools`` are theirs."""

    program: Program
    folder: Path
    values: dict[str, str]
    tools: Sequence[tuple[str, str]]

    @property
    def url(self) -> str:
        return f"{self.values['url']}/mcp"

    def folder_of(self, server_id: str) -> str:
        """Return the folder of the gateway's process of a server."""
        return str(self.folder / server_id)


@contextmanager
def running_fleet(**keys: object) -> Iterator[Fleet]:
    """Start the gateway, wait until every server is ready, and show all of their tools.

    ``keys`` are additional keys of each server's entry.
    """
    with TemporaryDirectory(prefix="fleet-") as made, running_postgres(Path(made)) as database:
        folder, port = Path(made), free_port()
        values = {"url": f"http://127.0.0.1:{port}", "postgres": database}
        entries = {
            name: server.entry(folder=make_folder(folder / name), **values) | keys
            for name, server in SERVERS.items()
        }
        Config(servers=entries).write(folder / "config")
        with started(folder, SETTINGS, port=port) as program:
            try:
                wait_until(lambda: {*states(program).values()} == {"ready"}, START_S)
            except AssertionError:
                failed = [it for it in listed(program) if it["state"] != "ready"]
                raise AssertionError(f"not ready: {failed}") from None
            tools = [pair for name in SERVERS for pair in offered(program, name)]
            write_json(folder / "config/preset_all.json", make_preset("all", tools=tools))
            headers = {"Authorization": f"Bearer {ADMIN}"}
            program.http.put(ACTIVE, json={"preset_id": "all"}, headers=headers).raise_for_status()
            yield Fleet(program=program, folder=folder, values=values, tools=tools)


@contextmanager
def running_postgres(folder: Path) -> Iterator[str]:
    folder.chmod(0o755)  # for its user, who is not root
    server = PostgresServer(folder / "server")
    server.start()
    try:
        yield server.url(OWNER, "postgres")
    finally:
        server.stop()


def listed(program: Program) -> list[Json]:
    """Return each server's status as shown to an operator."""
    headers = {"Authorization": f"Bearer {ADMIN}"}
    found: list[Json] = program.http.get(SERVERS_ROUTE, headers=headers).json()["servers"]
    return found


def states(program: Program) -> dict[str, str]:
    return {it["server_id"]: it["state"] for it in listed(program)}


def offered(program: Program, server_id: str) -> Iterator[tuple[str, str]]:
    """Yield a server's id and the name of each of its tools that needs no task."""
    query = {"offers": server_id}
    while True:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        answer = program.http.get(SERVERS_ROUTE, params=query, headers=headers).json()["offers"]
        tools = (it for it in answer["items"] if it["kind"] == "tool")
        yield from ((server_id, it["name"]) for it in tools if it.get("hidden_for") != "needs_task")
        if "next_cursor" not in answer:
            return
        query["cursor"] = answer["next_cursor"]
