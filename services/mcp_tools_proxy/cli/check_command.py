"""The ``check`` command: validates the configuration and connects to every server (contract §8).

Tables or JSON go to stdout, progress and the log to stderr.
"""

import asyncio
import signal
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import typer
from rich.console import Console

from mcp_tools_proxy.app.dependency_checks import DependencyCheck, check_dependencies
from mcp_tools_proxy.app.gateway import Gateway
from mcp_tools_proxy.app.start_checks import confinement_warnings
from mcp_tools_proxy.app.workers import worker_problem
from mcp_tools_proxy.auth.token_format import TokenEntry, read_lines
from mcp_tools_proxy.cli.check_facts import report_facts
from mcp_tools_proxy.cli.check_report import lines, print_report
from mcp_tools_proxy.cli.output import print_json
from mcp_tools_proxy.config.preset_files import PRESET_FILES
from mcp_tools_proxy.domain.configuration import Problem
from mcp_tools_proxy.domain.definitions import LOCK_FILE
from mcp_tools_proxy.domain.errors import ConfigReadOnly
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.gateway.check.pinned_definitions import (
    DefinitionsReport,
    Shown,
    examine_definitions,
    shown_by_presets,
    with_unstable,
)
from mcp_tools_proxy.gateway.check.report import CheckReport, Files, build_report, read_files
from mcp_tools_proxy.policy.definitions.comparison import lock_of
from mcp_tools_proxy.settings.settings import Settings, SettingsError
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.logging import configure_logging, flush_logs
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

Servers = Sequence[ServerConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeNote:
    """One change since the previous version.

    ``version`` is the first version with the change, ``text`` the advice, and ``concerns`` tests
    whether the change affects a configuration.
    """

    version: str
    text: str
    concerns: Callable[[Settings, Servers], bool]


NOTES: Sequence[UpgradeNote] = ()
"""Empty until a second version exists."""


def upgrade_notes(
    settings: Settings, servers: Servers, notes: Sequence[UpgradeNote] = NOTES
) -> list[str]:
    """Return the texts of the notes that affect these settings and servers of ``mcp.json``."""
    return [note.text for note in notes if note.concerns(settings, servers)]


@dataclass(frozen=True, slots=True)
class TokenReport:
    """The tokens with ``auth_mode`` token, and problems of their file."""

    entries: Sequence[TokenEntry] = ()
    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()


def check_tokens(settings: Settings, agents: Container[str]) -> TokenReport:
    """Check the tokens file; warn about tokens for agents without a profile."""
    path = settings.tokens_file
    if settings.auth_mode != "token" or path is None:
        return TokenReport()
    try:
        read = read_lines(path.read_bytes())
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}; until it can, all tokens are refused"
        problem = Problem(file="settings", path=variable("tokens_file"), message=reason)
        return TokenReport(problems=[problem])
    return TokenReport(
        entries=read.entries,
        problems=[
            Problem(file=path.name, path=f"line {number}", message=f"is not a valid token: {why}")
            for number, why in read.problems.items()
        ],
        warnings=[
            Problem(
                file=path.name,
                path=f"token {entry.id}",
                message=f"is for agent {quote(agent)}, which is not in agents.json: its calls "
                "fail with AGENT_NOT_FOUND",
            )
            for entry in read.entries
            for agent in sorted(entry.principal.agents or ())
            if agent not in agents
        ],
    )


PLAIN_WIDTH = 200
"""Width of the output in columns if it is not a terminal."""

EXTRA_S = 5.0
"""Seconds after the timeouts of all servers until one counts as failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Scope and output of a check.

    ``offers`` lists all items of the servers, ``agent`` adds the view of this agent, ``verbose``
    the log with the servers' stderr, and ``upgrade`` the changes of this version that affect the
    configuration. ``offline`` only reads files. ``lock`` accepts the presets' definitions by
    writing definitions.lock.json. ``labels`` suggests labels for the tools without any.
    """

    offers: bool
    agent: str | None
    verbose: bool
    upgrade: bool
    offline: bool
    as_json: bool
    lock: bool = False
    labels: bool = False


def check(settings: Settings, folder: Path, options: CheckOptions) -> bool:
    """Check a configuration folder and print the report; return whether it is free of faults.

    Raises BadParameter if the profile ``options.agent`` does not exist, SettingsError for an
    invalid setting, ConfigReadOnly if the lock cannot be written.
    """
    configure_logging(settings.log_level if options.verbose else "error", sys.stderr)
    try:
        gateway = Gateway(settings.model_copy(update={"config_dir": folder}))
    except ValueError as error:
        raise SettingsError(str(error)) from error
    files = read_files(gateway.files)
    if options.agent is not None:
        _check_agent(options.agent, files)
    try:
        report, dependencies = asyncio.run(_inspect_all(settings, gateway, files, options))
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    flush_logs()  # prevents log lines inside tables
    tokens = check_tokens(settings, files.agents.profiles)
    report = replace(
        report,
        failed_dependencies=sum(it.problem is not None for it in dependencies),
        problems=(*_worker_problems(settings, folder), *tokens.problems, *report.problems),
        warnings=(
            *_settings_warnings(settings),
            *_process_warnings(),
            *tokens.warnings,
            *report.warnings,
        ),
    )
    notes = upgrade_notes(settings, tuple(files.configuration.servers.values()))
    if options.as_json:
        facts = report_facts(report, tokens=tokens.entries, notes=notes, dependencies=dependencies)
        print_json(facts)
    else:
        _print(report, notes if options.upgrade else None, options, dependencies)
    return report.good


def _worker_problems(settings: Settings, folder: Path) -> list[Problem]:
    problem = worker_problem(settings.model_copy(update={"config_dir": folder}))
    if problem is None:
        return []
    name, _, message = problem.partition(": ")
    return [Problem(file="settings", path=name, message=message)]


def _settings_warnings(settings: Settings) -> list[Problem]:
    return [
        Problem(file="settings", path=it.variable, message=it.message) for it in settings.warnings
    ]


def _process_warnings() -> list[Problem]:
    return [Problem(file="process", path="$", message=it) for it in confinement_warnings()]


async def _inspect_all(
    settings: Settings, gateway: Gateway, files: Files, options: CheckOptions
) -> tuple[CheckReport, Sequence[DependencyCheck]]:
    """Connect to all servers and, unless offline, to all dependencies concurrently."""
    inspecting = _inspect(gateway, files, settings.require_agent, options)
    if options.offline:
        return await inspecting, ()
    async with asyncio.TaskGroup() as group:
        checking = group.create_task(check_dependencies(settings))
        report = await inspecting
    return report, checking.result()


def _print(
    report: CheckReport,
    notes: Sequence[str] | None,
    options: CheckOptions,
    dependencies: Sequence[DependencyCheck],
) -> None:
    """Print the report as tables, with upgrade notes unless they are None."""
    console = Console()
    console = console if console.is_terminal else Console(width=PLAIN_WIDTH, no_color=True)
    if notes is not None:
        lines(console, "Before you upgrade", notes)
        if not notes:
            console.print("No change in this version affects this configuration.\n", style="bold")
    lines(
        console,
        "Dependencies",
        [f"{it.name} ({it.setting}): {it.problem or 'OK'}" for it in dependencies],
    )
    print_report(report, console, offers=options.offers, locked=options.lock, labels=options.labels)


def _check_agent(name: str, files: Files) -> None:
    """Raise BadParameter if agents.json lacks a profile with this name."""
    profiles = files.agents.profiles
    if name in profiles:
        return
    if files.agents_are_known:
        hint = did_you_mean(closest_match(name, profiles))
    else:
        hint = "; agents.json cannot be used; run check without --agent to see why"
    raise typer.BadParameter(f"no agent profile is named {quote(name)}{hint}", param_hint="--agent")


async def _inspect(
    gateway: Gateway, files: Files, require_agent: bool | None, options: CheckOptions
) -> CheckReport:
    """Connect to all servers concurrently, each with its timeout; close them at the end.

    Runs only the reloader, pool and dialer of the gateway; offline, only the reloader.
    """
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with gateway.dialer, gateway.oauth, asyncio.TaskGroup() as group:
        await gateway.reloader.load()
        first: Shown = {}
        if options.offline:
            running = []
        else:
            running = [
                group.create_task(gateway.pool.run()),
                group.create_task(gateway.reloader.publish_offers()),
            ]
            await _wait_for_servers(gateway, files)
            first = await _restart_differing(gateway, files)
        refusal = await _write_lock(gateway, files) if options.lock else None
        if options.lock and refusal is None:
            files = await asyncio.to_thread(read_files, gateway.files)
        report = build_report(
            files,
            gateway.statuses(),
            gateway.pool.snapshots,
            gateway.registry.current,
            require_agent=require_agent,
            agent=options.agent,
            offline=options.offline,
            definitions=with_unstable(_definitions(gateway, files), first, _shown(gateway, files)),
            rules=gateway.run_rules,
        )
        for task in running:
            task.cancel()
    if refusal is not None:  # raised in the group, it would become an exception group
        raise refusal
    return report


async def _write_lock(gateway: Gateway, files: Files) -> ConfigReadOnly | None:
    """Accept the presets' current definitions; return an error if this fails, otherwise None.

    Locked definitions of servers that were not completely read are kept.
    """
    before = gateway.publisher.config.lock
    if before.problems:
        return ConfigReadOnly(
            f"{LOCK_FILE} has problems; fix it, or remove it, and run check --lock again"
        )
    snapshots = gateway.pool.snapshots
    reached = {it.server_id for it in gateway.statuses() if it.last_error is None} & set(snapshots)
    locked = before.lock.items if before.lock is not None else {}
    every_preset = not any(fnmatchcase(it.file, PRESET_FILES) for it in files.problems)
    lock = lock_of(
        _shown(gateway, files).items(),
        before.lock,
        unknown={key.server_id for key in locked} - (reached if every_preset else set()),
    )
    try:
        await asyncio.to_thread(gateway.files.save_lock, lock)
    except ConfigReadOnly as error:
        return error
    await gateway.reloader.load()
    return None


async def _restart_differing(gateway: Gateway, files: Files) -> Shown:
    """Restart servers whose definitions differ from the lock, to detect unstable definitions.

    Returns their first offers; empty without such servers.
    """
    publisher = gateway.publisher
    report = _definitions(gateway, files)
    differing = {it.key.server_id for it in report.findings.items if it.differs}
    if publisher.config.lock.lock is None or not differing:
        return {}
    first = _shown(gateway, files)
    servers = publisher.config.servers
    gateway.pool.apply({key: it for key, it in servers.items() if key not in differing})
    gateway.pool.apply(servers)
    await _wait_for_servers(gateway, files)
    return {key: it for key, it in first.items() if key.server_id in differing}


def _definitions(gateway: Gateway, files: Files) -> DefinitionsReport:
    publisher = gateway.publisher
    return examine_definitions(
        _shown(gateway, files), gateway.pool.snapshots, publisher.config, publisher.definitions
    )


def _shown(gateway: Gateway, files: Files) -> Shown:
    exclude = gateway.registry.current.offers.exclude
    return shown_by_presets(files.presets, gateway.pool.snapshots, exclude)


async def _wait_for_servers(gateway: Gateway, files: Files) -> None:
    enabled = [it for it in files.configuration.servers.values() if it.enabled]
    longest_s = max((server.connect_timeout_s for server in enabled), default=0.0)
    for server in enabled:
        if server.transport is Transport.STDIO:  # at worst, they start one after the other
            longest_s += server.start_timeout_s + server.connect_timeout_s
    with _progress(len(enabled)):
        await gateway.pool.wait_first_attempts(longest_s + EXTRA_S)


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
