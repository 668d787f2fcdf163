"""The ``check`` command: validates the configuration and connects to every server (contract §8).

Tables go to stdout, progress and the log to stderr.
"""

import asyncio
import signal
import sys
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console

from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.auth.token_format import read_lines
from mcp_tools_proxy.cli.check.check_report import lines, print_report
from mcp_tools_proxy.cli.check.upgrade_notes import upgrade_notes
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.gateway.check.report import (
    CheckReport,
    Files,
    build_report,
    read_files,
)
from mcp_tools_proxy.settings.settings import Settings, SettingsError
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.logging import configure_logging, flush_logs
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

PLAIN_WIDTH = 200
"""Width of the output, in columns, when it is no terminal."""

EXTRA_S = 5.0
"""Seconds after its connect time-out until a server counts as not connecting."""


def check(
    settings: Settings,
    folder: Path,
    *,
    offers: bool,
    agent: str | None,
    verbose: bool,
    upgrade: bool,
) -> bool:
    """Check a configuration folder and print the report; return whether there are no faults.

    ``offers`` adds the names of all items of the servers, ``agent`` the view of this agent,
    ``verbose`` the log, which includes servers' stderr, and ``upgrade`` the changes of this version
    that concern the configuration. Raises BadParameter when no profile is named ``agent``,
    SettingsError when a setting is invalid.
    """
    configure_logging(settings.log_level if verbose else "error", sys.stderr)
    try:
        gateway = Gateway(settings.model_copy(update={"config_dir": folder}))
    except ValueError as error:
        raise SettingsError(str(error)) from error
    files = read_files(gateway.files)
    if agent is not None:
        _check_agent(agent, files)
    try:
        report = asyncio.run(_inspect(gateway, files, settings.require_agent, agent))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    flush_logs()  # so that no log line appears inside a table
    console = Console()
    console = console if console.is_terminal else Console(width=PLAIN_WIDTH, no_color=True)
    warnings = [
        Problem(file="settings", path=it.variable, message=it.message) for it in settings.warnings
    ]
    tokens = _check_tokens(settings, files.agents.profiles)
    report = replace(
        report,
        problems=(*tokens.problems, *report.problems),
        warnings=(*warnings, *tokens.warnings, *report.warnings),
    )
    if upgrade:
        servers = tuple(files.configuration.servers.values())
        notes = upgrade_notes(settings, servers)
        lines(console, "Before you upgrade", notes)
        if not notes:
            console.print("No change of this version concerns this configuration.\n", style="bold")
    print_report(report, console, offers=offers)
    return report.good


@dataclass(frozen=True, slots=True)
class _TokenReport:
    """What is wrong with the tokens file, in ``auth_mode`` token."""

    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()


def _check_tokens(settings: Settings, agents: Container[str]) -> _TokenReport:
    """Check the tokens file; a token whose calls all name a missing profile is a warning."""
    path = settings.tokens_file
    if settings.auth_mode != "token" or path is None:
        return _TokenReport()
    try:
        read = read_lines(path.read_bytes())
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}; until it can no token is good"
        return _TokenReport(
            [Problem(file="settings", path=variable("tokens_file"), message=reason)]
        )
    return _TokenReport(
        problems=[
            Problem(file=path.name, path=f"line {number}", message=f"is not a valid token: {why}")
            for number, why in read.problems.items()
        ],
        warnings=[
            Problem(
                file=path.name,
                path=f"token {entry.id}",
                message=f"is for agent {quote(agent)}, which has no profile in agents.json: its "
                "calls are AGENT_NOT_FOUND",
            )
            for entry in read.entries
            for agent in sorted(entry.principal.agents or ())
            if agent not in agents
        ],
    )


def _check_agent(name: str, files: Files) -> None:
    """Raise BadParameter unless agents.json has a profile of that name."""
    profiles = files.agents.profiles
    if name in profiles:
        return
    if files.agents_are_known:
        hint = did_you_mean(closest_match(name, profiles))
    else:
        hint = "; agents.json cannot be used: check without --agent tells why"
    raise typer.BadParameter(f"no agent profile is named {quote(name)}{hint}", param_hint="--agent")


async def _inspect(
    gateway: Gateway, files: Files, require_agent: bool | None, agent: str | None
) -> CheckReport:
    """Connect to all servers at once, each within its own time-out; all are closed at the end.

    Of the gateway only the reloader, the pool and the dialer are run.
    """
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with gateway.dialer, asyncio.TaskGroup() as group:
        await gateway.reloader.load()
        pool = gateway.pool
        running = [
            group.create_task(pool.run()),
            group.create_task(gateway.reloader.publish_offers()),
        ]
        enabled = [it for it in files.configuration.servers.values() if it.enabled]
        longest_s = max((server.connect_timeout_s for server in enabled), default=0.0)
        with _progress(len(enabled)):
            await pool.wait_first_attempts(longest_s + EXTRA_S)
        report = build_report(
            files,
            gateway.statuses(),
            pool.snapshots,
            gateway.registry.current,
            require_agent=require_agent,
            agent=agent,
        )
        for task in running:
            task.cancel()
    return report


@contextmanager
def _progress(count: int) -> Iterator[None]:
    """Show a spinner on a terminal while servers connect."""
    console = Console(stderr=True)
    if not console.is_terminal or not count:
        yield
        return
    noun = "server" if count == 1 else "servers"
    with console.status(f"connecting to {count} {noun} (Ctrl+C stops)"):
        yield
