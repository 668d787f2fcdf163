"""The ``check`` command: is the configuration good, and does every server answer (contract §8)?

Tables go to stdout, progress and the log to stderr. What servers and files say is shown escaped.
"""

import asyncio
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_tools_proxy.assembly import build_config_folder
from mcp_tools_proxy.domain.server import ServerState, ServerStatus
from mcp_tools_proxy.downstream.dial import Dialer
from mcp_tools_proxy.downstream.pool import Pool
from mcp_tools_proxy.gateway.inspection import (
    Files,
    Findings,
    PresetFindings,
    build_findings,
    read_files,
)
from mcp_tools_proxy.policy.bounds import printable
from mcp_tools_proxy.settings import Settings
from mcp_tools_proxy.telemetry.logging import configure_logging
from mcp_tools_proxy.telemetry.metrics import Metrics

PLAIN_WIDTH = 200
"""Columns where the output is no terminal."""

EXTRA_S = 5.0
"""What a connect time-out is given beyond itself before a server counts as not connecting."""


def check(settings: Settings, folder: Path, *, offers: bool, verbose: bool) -> bool:
    """Check a configuration folder and print what was found; say whether all is well.

    With ``offers`` the names of all that the servers have are there, too; with ``verbose`` the log:
    in it is what servers write to their stderr.
    """
    configure_logging(settings.log_level if verbose else "error", sys.stderr)
    files = read_files(build_config_folder(settings, folder))
    try:
        findings = asyncio.run(_inspect(files))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    console = Console()
    console = console if console.is_terminal else Console(width=PLAIN_WIDTH, no_color=True)
    show(findings, console, offers=offers)
    return findings.good


async def _inspect(files: Files) -> Findings:
    """Connect to every server at once, each within its own time-out; none is left behind."""
    servers = files.configuration.servers
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Dialer() as dialer, asyncio.TaskGroup() as group:
        pool = Pool(dialer.dial, Metrics(), on_change=_ignore)
        pool.apply(servers)
        owner = group.create_task(pool.run())
        enabled = [server for server in servers.values() if server.enabled]
        longest_s = max((server.connect_timeout_s for server in enabled), default=0.0)
        with _progress(len(enabled)):
            await pool.settled(longest_s + EXTRA_S)
        findings = build_findings(files, pool.statuses, pool.snapshots)
        owner.cancel()
    return findings


def _ignore() -> None:
    """Take no note of what changes while we look."""


@contextmanager
def _progress(count: int) -> Iterator[None]:
    """Show on a terminal that something is going on."""
    console = Console(stderr=True)
    if not console.is_terminal or not count:
        yield
        return
    noun = "server" if count == 1 else "servers"
    with console.status(f"connecting to {count} {noun} (Ctrl+C stops)"):
        yield


def show(findings: Findings, console: Console, *, offers: bool) -> None:
    """Print what was found, tables first, the verdict last."""
    _table(console, "Servers", _SERVER_COLUMNS, [_server_row(s) for s in findings.servers])
    if offers:
        _table(
            console,
            "Offered by the servers: what a preset may name",
            ("server", "kind", "name"),
            [(server_id, kind.value, name) for server_id, kind, name in findings.offers],
        )
    _lines(
        console,
        "Servers that are not well",
        [f"{s.server_id}: {s.last_error or 'not connected'}" for s in findings.unwell],
    )
    _table(
        console,
        "Dropped: offered by a server, and cannot be used",
        ("server", "kind", "name", "reason"),
        [(s, item.kind.value, item.name, item.reason) for s, item in findings.dropped],
    )
    _table(console, "Presets", _PRESET_COLUMNS, [_preset_row(p) for p in findings.presets])
    _table(
        console,
        "Missing: named by a preset, and offered by no server",
        ("preset", "kind", "server", "name"),
        [
            (found.preset.preset_id, item.kind.value, item.server_id, item.name)
            for found in findings.presets
            for item in found.view.missing
        ],
    )
    _table(
        console,
        "Names that model APIs refuse: use the alias there",
        ("preset", "name", "alias"),
        [
            (found.preset.preset_id, name, alias)
            for found in findings.presets
            for name, alias in found.refused_names.items()
        ],
    )
    _lines(console, "Problems", map(str, findings.problems))
    _lines(console, "Warnings", map(str, findings.warnings))
    console.print(_verdict(findings))


_SERVER_COLUMNS = ("server", "state", "transport", "protocol", "offers", "connect ms")
_PRESET_COLUMNS = ("", "preset", "name", "tools", "prompts", "resources", "templates", "missing",
                   "tokens")  # fmt: skip
_NUMBERS = frozenset(
    {"tools", "prompts", "resources", "templates", "connect ms", "missing", "tokens"}
)
_SETTLED = frozenset({ServerState.READY, ServerState.DISABLED})


def _server_row(server: ServerStatus) -> tuple[str, ...]:
    return (
        server.server_id,
        server.state.value if server.state in _SETTLED else "failed",
        server.transport.value,
        server.era or "-",
        _offers(server.counts) if server.state is ServerState.READY else "-",
        "-" if server.connect_s is None else f"{server.connect_s * 1000:.0f}",
    )


def _offers(counts: Mapping[str, int]) -> str:
    """Say what a server has: ``3 tools, 1 prompt``."""
    offered = [
        _count(counts.get(f"{noun}s", 0), noun.replace("_", " "))
        for noun in ("tool", "prompt", "resource", "resource_template")
        if counts.get(f"{noun}s")
    ]
    return ", ".join(offered) or "nothing"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _preset_row(found: PresetFindings) -> tuple[str, ...]:
    view = found.view
    return (
        "*" if found.active else "",
        found.preset.preset_id,
        found.preset.name,
        str(len(view.tools)),
        str(len(view.prompts)),
        str(len(view.resources)),
        str(len(view.templates)),
        str(len(view.missing)),
        str(found.tokens),
    )


def _table(
    console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    if not rows:
        return
    console.print(Text(title, style="bold"))
    table = Table(box=None, pad_edge=True)
    for column in columns:
        table.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
    console.print()


def _lines(console: Console, title: str, texts: Iterable[str]) -> None:
    lines = [printable(text) for text in texts]
    if lines:
        console.print(Text(title, style="bold"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()


def _verdict(findings: Findings) -> Text:
    if findings.good:
        return Text("All is well.", style="green")
    found = ", ".join(_count(number, noun) for noun, number in findings.faults.items() if number)
    return Text(f"Something is wrong: {found}.", style="red")
