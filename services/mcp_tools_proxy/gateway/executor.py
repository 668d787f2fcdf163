"""Executes one call from request to outcome.

``Executor`` contains all checks of a call in their order.
"""

import time
from collections.abc import Awaitable, Callable

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.audit import RegistryVersion
from mcp_tools_proxy.domain.budget import BudgetStatus, ChargedCall
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.client import begin_sending
from mcp_tools_proxy.domain.components import Component, ComponentSpec, JsonObject
from mcp_tools_proxy.domain.errors import (
    DocumentRefused,
    InternalError,
    InvalidArguments,
    LoginRequired,
    ProxyError,
    RateLimitExceeded,
    ResultTooLarge,
    ShuttingDown,
)
from mcp_tools_proxy.domain.guards import GuardFinding
from mcp_tools_proxy.domain.logins import SignInOffers
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome, RunNote
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.gateway.call_checks import (
    charged_call,
    check_blocklist,
    check_caller,
    raise_if_exceeded,
    reads_any_document,
    recorded_call,
    with_defaults_of,
)
from mcp_tools_proxy.gateway.check_processes import CheckProcesses
from mcp_tools_proxy.gateway.first_attempts import Find, FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.screening import screened_call, screened_replay
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.ratelimit.limiter import Admission, Limiter
from mcp_tools_proxy.registry.registry import Registry
from mcp_tools_proxy.storage.idempotency.idempotent_calls import IdempotentCalls
from mcp_tools_proxy.telemetry.spans import COMPLETE, call_span
from mcp_tools_proxy.wire.content_blocks import repeated_data_bytes
from mcp_tools_proxy.wire.json_schema.validator import CostlyCheck
from mcp_tools_proxy.wire.text import QUOTE_CHARS

log = structlog.get_logger()


def _noop(_call: Call, _spec: ComponentSpec) -> None:
    """Do nothing (default for ``on_start``)."""


def _no_place() -> bool:
    """Return False: no place was reserved (default for ``reserve_record``)."""
    return False


class _Progress:
    """The known facts of a call for its record and for the budgets in its response."""

    __slots__ = (
        *("admission", "completes", "component", "document_version", "guards"),
        *("has_audit_place", "recorded", "registry", "run"),
    )

    def __init__(self, registry: RegistryVersion, *, completes: bool) -> None:
        self.completes = completes
        """Whether the call completes an argument."""
        self.component: Component | None = None
        self.registry = registry
        self.document_version: str | None = None
        self.admission: Admission | None = None
        self.has_audit_place = False
        self.guards: list[GuardFinding] | None = None
        """Findings of guards; None if no guard is active."""
        self.recorded: Call | None = None
        """The call as recorded, if it differs from the received one."""
        self.run: RunNote | None = None
        """None before the call's run and the policies are asked."""

    def budget_of(self, error: ProxyError) -> BudgetStatus | None:
        """Return the budget to report to the caller of a call that fails with ``error``."""
        if isinstance(error, RateLimitExceeded):
            return error.budget
        return None if self.admission is None else self.admission.status_after(0)


def _completed(component: Component, call: Call, progress: _Progress) -> Call:
    completed = component.complete_arguments(call)
    if completed is not call:
        progress.recorded = recorded_call(component.spec, call, completed)
    return completed


class Executor:
    """Executes the calls of all entries (contract §1, order of checks).

    ``on_start`` is called for each call to a downstream server after it is resolved; ``on_finish``
    after every call. ``reserve_record`` reserves a place for the call's record and returns whether
    it did; it may raise AuditUnavailable. ``sign_ins`` has the addresses of sign-ins to servers,
    None without sign-in pages.
    """

    def __init__(
        self,
        *,
        first_attempts: FirstAttempts,
        limiter: Limiter,
        blocklist: Blocklist,
        lifecycle: Lifecycle,
        idempotent_calls: IdempotentCalls,
        check_processes: CheckProcesses,
        run_checks: RunChecks,
        max_result_bytes: int,
        on_finish: Callable[[CallRecord], None],
        on_start: Callable[[Call, ComponentSpec], None] = _noop,
        reserve_record: Callable[[], bool] = _no_place,
        sign_ins: SignInOffers | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._first_attempts = first_attempts
        self._limiter = limiter
        self._blocklist = blocklist
        self._lifecycle = lifecycle
        self._idempotent_calls = idempotent_calls
        self._check_processes = check_processes
        self._run_checks = run_checks
        self._max_result_bytes = max_result_bytes
        self._on_finish = on_finish
        self._on_start = on_start
        self._reserve_record = reserve_record
        self._sign_ins = sign_ins
        self._clock = clock

    async def execute(self, call: Call) -> Outcome:
        """Execute one call and return its outcome; only a cancellation is raised.

        Every call is recorded. Calls that fail before admission or with RATE_LIMIT_EXCEEDED are not
        charged, unless a process checked the arguments (``_check_apart``). After admission one call
        is always charged, and the result's tokens on success. ACCESS_DENIED and DOCUMENT_NOT_FOUND
        charge the tenant's budgets but not the document's (``_check_document``). Calls with an
        idempotency key are checked, and then made or replayed (``IdempotentCalls``). Lists and
        searches of documents are always made (``reads_any_document``).
        """
        with call_span(call):
            return await self._execute(call, Registry.resolve)

    async def complete(self, call: Call) -> Outcome:
        """Complete an argument of the prompt or resource template in ``call``.

        ``call.arguments`` is ``{"argument": {"name", "value"}, "context"?: {"arguments"}}``, the
        result ``{"completion": {"values", "total"?, "hasMore"?}}``. A completion is checked,
        charged and recorded like any other call.
        """
        with call_span(call, COMPLETE):
            return await self._execute(call, Registry.completion)

    async def _execute(self, call: Call, find: Find[Component]) -> Outcome:
        started = self._clock()
        version = self._first_attempts.registry.current.version
        progress = _Progress(version, completes=find is Registry.completion)
        sending = begin_sending()
        outcome: Outcome | None = None
        try:
            progress.has_audit_place = self._reserve_record()
            self._lifecycle.check_serving()
            outcome = await self._lifecycle.track(self._find_and_call(call, find, progress))
        except ShuttingDown as error:
            component = progress.component
            may_have_run = component is not None and not component.spec.idempotent
            shown: ProxyError = error.after_sending() if may_have_run else error
            outcome = Failed(error=without_frames(shown), budget=progress.budget_of(error))
        except ProxyError as error:
            shown = await self._with_address(error, call)
            if call.run is not None and progress.run is None:
                shown = await self._run_checks.refused(call, shown)
            outcome = Failed(
                error=without_frames(shown),
                budget=progress.budget_of(error),
                spec=None if progress.component is None else progress.component.spec,
            )
        except Exception as error:
            name = call.name[:QUOTE_CHARS]
            log.exception("call.crashed", kind=call.kind.value, name=name, trace_id=call.trace_id)
            without_frames(error)
            crash = InternalError()
            outcome = Failed(error=crash, budget=progress.budget_of(crash))
        finally:
            self._on_finish(
                CallRecord(
                    call=progress.recorded or call,
                    spec=progress.component.spec if progress.component is not None else None,
                    outcome=outcome,
                    duration_s=self._clock() - started,
                    registry=progress.registry,
                    document_version=progress.document_version,
                    is_charged=progress.admission is not None,
                    has_audit_place=progress.has_audit_place,
                    guards=tuple(progress.guards or ()),
                    was_sent=sending.was_sent,
                    run=progress.run,
                )
            )
        return outcome

    async def _with_address(self, error: ProxyError, call: Call) -> ProxyError:
        """Return the error; add the sign-in address to a missing login."""
        if self._sign_ins is None or not isinstance(error, LoginRequired):
            return error
        return await self._sign_ins.with_address(error, call.caller)

    async def _find_and_call(
        self, call: Call, find: Find[Component], progress: _Progress
    ) -> Outcome:
        component = self._first_attempts.find_unless_pending(call, find)
        if component is None:
            component, call = await self._first_attempts.wait(call, find)
            progress.recorded, progress.registry = (
                call,
                self._first_attempts.registry.current.version,
            )
        progress.component, spec = component, component.spec
        if spec.server_id is not None:
            self._on_start(call, spec)
        check_caller(call.caller, spec)
        if call.refusal is not None:
            raise call.refusal
        call = _completed(component, call, progress)
        try:
            parsed = component.parse(call.arguments)
        except CostlyCheck as costly:
            await self._check_apart(costly, spec, call, progress)
            parsed = costly.arguments
        if self._blocklist.is_on:
            # the URI of a resource is not an argument
            await check_blocklist(self._blocklist, spec, call)
        charged = await self._check_document(component, parsed, call, progress)
        if call.idempotency_key is None or reads_any_document(spec, charged):
            return await self._admit_and_call(component, parsed, call, charged, progress)

        async def check_and_call() -> Ok:
            # waiting for another call with the key takes any time; access may have changed
            again = await self._check_document(component, parsed, call, progress)
            return await self._admit_and_call(component, parsed, call, again, progress)

        outcome = await self._idempotent_calls.call(
            call, call.idempotency_key, spec, check_and_call
        )
        return await self._screen_replay(call, outcome, progress)

    async def _screen_replay(self, call: Call, outcome: Outcome, progress: _Progress) -> Outcome:
        if outcome.replayed:
            await self._run_checks.replayed(call)
        guards = self._first_attempts.registry.current.guards
        if guards is None:
            return outcome
        progress.guards = progress.guards or []
        return await screened_replay(guards, call, outcome, progress.guards)

    async def _check_apart(
        self, costly: CostlyCheck, spec: ComponentSpec, call: Call, progress: _Progress
    ) -> None:
        """Check arguments in a process, within the budgets; failed checks are charged.

        Otherwise refused calls would be free and could keep a processor busy. Raises
        InvalidArguments, RateLimitExceeded, ServerBusy.
        """
        charged = charged_call(spec, call)
        raise_if_exceeded(await self._limiter.peek(charged))
        try:
            await self._check_processes.check(costly, call.caller.tenant_id)
        except InvalidArguments:
            progress.admission = await self._limiter.admit(charged)
            raise

    async def _admit_and_call(
        self,
        component: Component,
        parsed: object,
        call: Call,
        charged: ChargedCall,
        progress: _Progress,
    ) -> Ok:
        admission = progress.admission = await self._limiter.admit(charged)
        if not self._run_checks.apply_to(call):
            return await self._make(component, parsed, call, admission, progress)
        progress.run = RunNote()

        def make(admitted: Call) -> Awaitable[Ok]:
            return self._make(component, parsed, admitted, admission, progress)

        call = with_defaults_of(call, parsed)
        return await self._run_checks.call(
            call, component.spec, progress.run, make, completes=progress.completes
        )

    async def _make(
        self,
        component: Component,
        parsed: object,
        call: Call,
        admission: Admission,
        progress: _Progress,
    ) -> Ok:
        spec = component.spec
        guards = self._first_attempts.registry.current.guards
        if guards is None:
            result = await component.call(parsed, call)
        else:
            progress.guards = []
            result = await screened_call(guards, component, parsed, call, progress.guards)
        result_json = to_json(result.value)
        max_bytes = result.max_bytes or self._max_result_bytes
        if len(result_json) > max_bytes:
            self._check_size(len(result_json), result.value, max_bytes, spec)
        await self._limiter.charge_tokens(admission, result.tokens)
        return Ok(
            spec=spec,
            result=result.value,
            result_json=result_json,
            tokens=result.tokens,
            input_required=result.input_required,
            read=result.read,
            reads_untrusted=result.reads_untrusted,
            budget=admission.status_after(result.tokens),
        )

    async def _check_document(
        self, component: Component, parsed: object, call: Call, progress: _Progress
    ) -> ChargedCall:
        """Return the budgets to charge, including those of the call's document.

        Raises AccessDenied or DocumentNotFound if the document does not exist for this caller. Such
        a call is charged to the tenant only, and refused only after the tenant's budgets admit it
        (otherwise RateLimitExceeded). So polling for an import does not use up the document's
        budget, and no response depends on the budget of a document that the caller may not read.
        """
        charged = charged_call(component.spec, call)
        if charged.doc_id is not None:
            try:
                progress.document_version = await component.check_document(parsed, call)
            except DocumentRefused:
                progress.admission = await self._limiter.admit(charged._replace(doc_id=None))
                raise
        return charged

    def _check_size(
        self, size: int, result: JsonObject, max_bytes: int, spec: ComponentSpec
    ) -> None:
        if size - repeated_data_bytes(dict(result)) <= max_bytes:
            return
        advice = "ask for less at a time"
        if spec.server_id is None:
            advice = "ask for less at a time, or read pages with read_doc_pages"
        raise ResultTooLarge(
            f"the result is {size} bytes as JSON, the limit is {max_bytes}; " + advice,
            details={"bytes": size, "max_result_bytes": max_bytes},
        )
