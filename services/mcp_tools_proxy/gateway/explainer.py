"""Explains a call without making it: the verdict of each check, and the destination.

The checks and their order are those of ``Executor``. Nothing is executed or charged.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field

from mcp_tools_proxy.domain.audit import (
    CHECK_OF_CODE,
    NO_REGISTRY,
    Check,
    RegistryVersion,
    RuleSource,
    rule_of,
)
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import Component, ComponentSpec
from mcp_tools_proxy.domain.errors import (
    DocumentRefused,
    ProxyError,
    RetrievalNotConfigured,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.server import ServerStatus
from mcp_tools_proxy.gateway.call_checks import (
    charged_call,
    check_blocklist,
    check_caller,
    raise_if_exceeded,
    with_defaults_of,
)
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.screening import screen_arguments
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.ratelimit.limiter import BudgetReading, Limiter
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.wire.json_schema.validator import CostlyCheck

PASS = "pass"  # noqa: S105 - a verdict
NOT_REACHED = "not_reached"
"""The verdict of checks after a refusal."""
NOT_CHECKED = "not_checked"
"""The verdict of checks that require making the call."""

_NOT_OF_A_CALL = (Check.AUTHORIZATION, Check.RESULT, Check.OPERATION, Check.CALLER, Check.GATEWAY)

ORDER = tuple(it for it in Check if it not in _NOT_OF_A_CALL)
"""The checks in the order of a call."""

WINDOW_TOOL = "read_chunk_window"
"""The only tool that uses the retrieval service."""

_CHECKED_APART = "a call checks them in a separate process, because the check may be slow"


class _Undecided(Exception):
    """The result of a check requires making the call."""

    def __init__(self, check: Check, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.check = check
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckVerdict:
    """The result of one check: PASS, NOT_REACHED, NOT_CHECKED, or an error code."""

    check: Check
    verdict: str
    message: str | None = None
    reason: str | None = None
    rule: RuleSource | None = None


@dataclass(slots=True)
class Explanation:
    """The expected result of a call: verdicts in order, destination, and remaining budgets."""

    verdicts: dict[Check, CheckVerdict] = field(
        default_factory=lambda: {it: CheckVerdict(check=it, verdict=NOT_REACHED) for it in ORDER}
    )
    sends: Mapping[str, object] | None = None
    """Destination and argument names of the call; None if it is refused earlier."""
    budgets: Sequence[BudgetReading] = ()
    registry: RegistryVersion = NO_REGISTRY

    @property
    def checks(self) -> Sequence[CheckVerdict]:
        """The verdicts in the order of the checks."""
        return tuple(self.verdicts.values())

    def add(
        self,
        check: Check,
        verdict: str = PASS,
        message: str | None = None,
        reason: str | None = None,
        rule: RuleSource | None = None,
    ) -> None:
        """Add the verdict of a check."""
        self.verdicts[check] = CheckVerdict(
            check=check, verdict=verdict, message=message, reason=reason, rule=rule
        )

    @property
    def refusal(self) -> CheckVerdict | None:
        """The check that would refuse the call, if known."""
        passing = (PASS, NOT_REACHED, NOT_CHECKED)
        return next((it for it in self.checks if it.verdict not in passing), None)

    @property
    def undecided(self) -> CheckVerdict | None:
        """The check that requires making the call; later checks are not reached."""
        open_checks = (it for it in self.checks if it.verdict == NOT_CHECKED)
        return next((it for it in open_checks if it.check is not Check.IDEMPOTENCY), None)

    @property
    def decision(self) -> str:
        """The code of the refusal, NOT_CHECKED if a check is open, otherwise PASS."""
        decisive = self.refusal or self.undecided
        return PASS if decisive is None else decisive.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Destinations:
    """Call targets: servers with their state, and the retrieval service if configured.

    ``check_call`` raises the immediate errors of a call to a server: IdentityRequired,
    CredentialsMissing, LoginRequired, and ServerUnavailable without a connection or with an open
    circuit. It returns the reason if only a call can decide, otherwise None.
    """

    servers: Callable[[], Iterable[ServerStatus]]
    check_call: Callable[[str, Caller], Awaitable[str | None]]
    windows_configured: bool
    windows_are_local: bool


class Explainer:
    """Explains calls; ``check_audit`` raises AuditUnavailable if records cannot be kept."""

    def __init__(
        self,
        *,
        first_attempts: FirstAttempts,
        limiter: Limiter,
        blocklist: Blocklist,
        lifecycle: Lifecycle,
        check_audit: Callable[[], None],
        run_checks: RunChecks,
        destinations: Destinations,
    ) -> None:
        self._first_attempts = first_attempts
        self._limiter = limiter
        self._blocklist = blocklist
        self._lifecycle = lifecycle
        self._check_audit = check_audit
        self._run_checks = run_checks
        self._destinations = destinations

    async def explain(self, call: Call) -> Explanation:
        """Return the expected result of a call. Errors of checks are returned, not raised."""
        found = Explanation(registry=self._first_attempts.registry.current.version)
        found.add(Check.AUTHENTICATION)
        found.add(Check.REQUEST)
        try:
            await self._check(call, found)
        except ProxyError as error:
            rule = rule_of(error.code, error.rule)
            found.add(CHECK_OF_CODE[error.code], error.code, error.message, error.reason, rule)
        except _Undecided as error:
            found.add(error.check, NOT_CHECKED, str(error), error.reason)
        return found

    async def _check(self, call: Call, found: Explanation) -> None:
        """Run the checks in order, adding passed ones to ``found``. Raises ProxyError."""
        self._check_audit()
        found.add(Check.AUDIT)
        self._lifecycle.check_serving()
        found.add(Check.LIFECYCLE)
        component = self._resolve(call, found)
        check_caller(call.caller, component.spec)
        call = component.complete_arguments(call)
        try:
            parsed = component.parse(call.arguments)
        except CostlyCheck:
            raise _Undecided(Check.ARGUMENTS, _CHECKED_APART) from None
        found.add(Check.ARGUMENTS)
        await check_blocklist(self._blocklist, component.spec, call)
        found.add(Check.BLOCKLIST)
        await self._check_document_and_budgets(component, parsed, call, found)
        await self._check_run(component.spec, with_defaults_of(call, parsed), found)
        await self._check_guards(component.spec, call)
        found.add(Check.GUARDS)
        found.sends = self._sent(component, call)
        await self._check_destination(component, call.caller, found)
        found.add(Check.SERVER)

    def _resolve(self, call: Call, found: Explanation) -> Component:
        try:
            component = self._first_attempts.find_unless_pending(call, Registry.resolve)
        except ProxyError as error:
            if CHECK_OF_CODE[error.code] in (Check.VISIBILITY, Check.SERVER):
                found.add(Check.AGENT)
            raise
        found.add(Check.AGENT)
        if component is None:
            raise _Undecided(
                Check.VISIBILITY, "a call waits for a server that is being connected to"
            )
        found.add(Check.VISIBILITY)
        return component

    async def _check_document_and_budgets(
        self,
        component: Component,
        parsed: object,
        call: Call,
        found: Explanation,
    ) -> None:
        """Check in the order of the contract: the tenant's budgets precede the document."""
        charged = charged_call(component.spec, call)
        found.budgets = await self._limiter.peek(charged)
        if charged.doc_id is not None:
            try:
                await component.check_document(parsed, call)
            except DocumentRefused:
                found.budgets = await self._limiter.peek(charged._replace(doc_id=None))
                raise_if_exceeded(found.budgets)
                raise
        found.add(Check.DOCUMENT)
        found.add(Check.IDEMPOTENCY, PASS if call.idempotency_key is None else NOT_CHECKED)
        raise_if_exceeded(found.budgets)
        found.add(Check.BUDGET)

    async def _check_run(self, spec: ComponentSpec, call: Call, found: Explanation) -> None:
        """Decide as a call would, without counting it. Raises ProxyError."""
        try:
            if self._run_checks.apply_to(call):
                await self._run_checks.decide(call, spec)
        except ProxyError as error:
            if CHECK_OF_CODE[error.code] is Check.POLICY:
                found.add(Check.RUN)
            raise
        found.add(Check.RUN)
        found.add(Check.POLICY)

    async def _check_guards(self, spec: ComponentSpec, call: Call) -> None:
        """Screen the arguments; results cannot be screened. Raises GuardRefused."""
        guards = self._first_attempts.registry.current.guards
        own = None if guards is None else guards.for_calls(spec.server_id, call.caller.agent)
        if own is not None:
            await screen_arguments(own, spec, call, [])

    async def _check_destination(
        self, component: Component, caller: Caller, found: Explanation
    ) -> None:
        spec = component.spec
        if spec.name == WINDOW_TOOL and not self._destinations.windows_configured:
            raise RetrievalNotConfigured("no Retrieval Service is set")
        found.add(Check.RETRIEVAL)
        if spec.server_id is None:
            return
        undecided = await self._destinations.check_call(spec.server_id, caller)
        if undecided is not None:
            status = self._status_of(spec.server_id)
            reason = None if status is None else status.last_error
            raise _Undecided(Check.SERVER, undecided, reason)

    def _sent(self, component: Component, call: Call) -> Mapping[str, object]:
        """Return the destination of a call with the names of its arguments, without values."""
        spec = component.spec
        names = [name for name in call.arguments if name in spec.argument_names]
        status = self._status_of(spec.server_id)
        if status is not None:
            transport = None if status.transport is None else status.transport.value
            return {
                "to": "server",
                "server_id": status.server_id,
                "transport": transport,
                "name": spec.bare_name,
                "arguments": names,
            }
        if spec.name == WINDOW_TOOL and not self._destinations.windows_are_local:
            return {"to": "retrieval", "arguments": ["tenant_id", *names]}
        return {"to": "documents", "arguments": names}

    def _status_of(self, server_id: str | None) -> ServerStatus | None:
        if server_id is None:
            return None
        statuses = self._destinations.servers()
        return next((it for it in statuses if it.server_id == server_id), None)
