"""Finds what needs a person: failing servers, waiting logins, items, files, dependencies."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from mcp_tools_proxy.api.overview.overview_models import AttentionKind
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.server import ServerConfig, ServerState, ServerStatus
from mcp_tools_proxy.domain.server_auth import LoginFor
from mcp_tools_proxy.gateway.definition_guard import reason_of
from mcp_tools_proxy.gateway.health import CheckResult
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.wire.text import QUOTE_CHARS, printable

MAX_OF_KIND = 50
"""Entries of one kind that are shown."""

_DOWN = (
    ServerState.RECONNECTING,
    ServerState.UNREACHABLE,
    ServerState.FAILED,
    ServerState.INVALID,
)

_SHOWN_ELSEWHERE = ("config", "preset", "definitions", "agents")
"""Checks of readiness whose every problem has an entry of its own."""

_REASONS = ("problems", "problem", "failure", "reason", "file", "last_error")
"""The fields of a check that say why it is degraded."""

Entry = Mapping[str, object]
"""One entry of the answer."""


def for_tenant(
    statuses: Iterable[ServerStatus], configs: Mapping[str, ServerConfig], tenant_id: str
) -> Iterator[Entry]:
    """Yield what somebody who looks after one tenant may know of: no errors, no other's logins."""
    for status in statuses:
        if _is_failing(status):
            yield _failing(status, error=None)
        waiting = _waiting(status, configs.get(status.server_id))
        if waiting is not None and waiting.get("tenant_id") == tenant_id:
            yield waiting


def for_all_tenants(
    statuses: Iterable[ServerStatus],
    publisher: RegistryPublisher,
    checks: Mapping[str, CheckResult],
) -> Iterator[Entry]:
    """Yield all that needs a person."""
    configs = publisher.configuration.servers
    for status in statuses:
        if _is_failing(status):
            yield _failing(status, error=status.last_error)
        waiting = _waiting(status, configs.get(status.server_id))
        if waiting is not None:
            yield waiting
    yield from chain(_items(publisher), _files(publisher), _dependencies(checks))


def at_most(entries: Iterable[Entry]) -> tuple[list[Entry], int]:
    """Return the first MAX_OF_KIND of each kind, and how many were left out."""
    counts: Counter[object] = Counter()
    shown: list[Entry] = []
    left_out = 0
    for entry in entries:
        counts[entry["kind"]] += 1
        if counts[entry["kind"]] > MAX_OF_KIND:
            left_out += 1
        else:
            shown.append(entry)
    return shown, left_out


def _entry(kind: AttentionKind, subject: str, message: str, **ids: object) -> Entry:
    return without_none({"kind": kind.value, "subject": subject, "message": message, **ids})


def _is_failing(status: ServerStatus) -> bool:
    """Return whether a server does not work, for another reason than a login that is missing."""
    if status.state in (ServerState.DISABLED, ServerState.LOGIN_REQUIRED):
        return False
    return status.state in _DOWN or status.stale


def _failing(status: ServerStatus, *, error: str | None) -> Entry:
    state = status.state.value
    if status.state is ServerState.READY:
        message = "connected, but its lists could not be refreshed"
    else:
        message = f"its state is {state}"
    return _entry(
        AttentionKind.SERVER_FAILING,
        status.server_id,
        message if error is None else f"{message}: {error}",
        server_id=status.server_id,
    )


def _waiting(status: ServerStatus, config: ServerConfig | None) -> Entry | None:
    """Return the entry of a server that waits for somebody's login; None for any other."""
    if status.state is not ServerState.LOGIN_REQUIRED or config is None or config.auth is None:
        return None
    login_for = (config.auth.discovery or config.auth).login_for
    caller = config.discovery_caller
    is_deployments = caller is None or login_for is LoginFor.DEPLOYMENT
    return _entry(
        AttentionKind.LOGIN_WAITING,
        status.server_id,
        f"sign-in required: it uses the login of a {login_for.value}",
        server_id=status.server_id,
        login_for=login_for.value,
        tenant_id=None if caller is None or is_deployments else caller.tenant_id,
        user_id=caller.user_id if caller is not None and login_for is LoginFor.USER else None,
    )


def _items(publisher: RegistryPublisher) -> Iterator[Entry]:
    """Yield the items that are not visible as the preset and the lock have them."""
    preset_id = publisher.active_preset.preset_id
    for missing, reason in publisher.missing:
        yield _entry(
            AttentionKind.ITEM_MISSING,
            f"{missing.kind.value} {printable(missing.name[:QUOTE_CHARS])}",
            f"the preset {preset_id} names it: {reason.text}",
            server_id=missing.server_id,
            item_kind=missing.kind.value,
            name=missing.name,
        )
    for finding in publisher.definitions.findings.remarkable:
        if not (finding.quarantined or finding.differs or finding.hidden_by):
            continue
        kind = AttentionKind.ITEM_CHANGED
        message = reason_of(finding)
        if finding.quarantined:
            kind = AttentionKind.ITEM_QUARANTINED
            message += ", so it is neither listed nor callable"
        elif finding.hidden_by is not None:
            kind = AttentionKind.ITEM_GUARDED
        item = finding.key
        yield _entry(
            kind,
            f"{item.kind.value} {printable(item.name[:QUOTE_CHARS])}",
            message,
            server_id=item.server_id,
            item_kind=item.kind.value,
            name=item.name,
        )


def _files(publisher: RegistryPublisher) -> Iterator[Entry]:
    """Yield the problems of the files of the configuration, and that older versions are used."""
    for problem in publisher.problems:
        yield _entry(
            AttentionKind.FILE_PROBLEM,
            problem.file,
            problem.message,
            file=problem.file,
            path=problem.path,
        )
    last = publisher.last_reload
    since = None if last is None else last.at
    for file in publisher.config.retained_files:
        message = "invalid; its last valid content, if any, stays active"
        yield _entry(AttentionKind.CONFIG_RETAINED, file, message, file=file, since=since)
    if last is not None and not publisher.is_built:
        message = (
            "the last change could not be applied; the previous configuration stays active; see "
            "the log"
        )
        yield _entry(AttentionKind.CONFIG_RETAINED, "config", message, since=since)


def _dependencies(checks: Mapping[str, CheckResult]) -> Iterator[Entry]:
    for name, check in checks.items():
        if name.startswith("server:") or name in _SHOWN_ELSEWHERE:
            continue
        if check["status"] != "ok":
            reasons = "; ".join(_reasons(check)) or "it reports a failure"
            yield _entry(AttentionKind.DEPENDENCY_DEGRADED, name, reasons)
        if check.get("lost"):
            yield _entry(
                AttentionKind.RECORDS_LOST,
                name,
                f"{check['lost']} records lost since the start",
            )


def _reasons(check: CheckResult) -> Iterator[str]:
    for key in _REASONS:
        value = check.get(key)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            yield from map(str, value)
