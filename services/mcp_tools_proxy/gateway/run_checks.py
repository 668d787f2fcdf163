"""Checks calls against their runs and the policies, and updates the memory of runs.

A run's memory is changed twice for each call: together with the decision, before the call is sent,
and before its answer leaves. So one order of the calls explains all decisions, also those of a
batch and of several replicas.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.errors import (
    InternalError,
    ProxyError,
    RateLimitExceeded,
    RunExpired,
    RunRefused,
)
from mcp_tools_proxy.domain.outcome import Ok, RunNote
from mcp_tools_proxy.gateway.checked_call import (
    LONG_CHARS,
    ApprovalNeeded,
    CheckedCall,
    Refusal,
    decided_by,
    digest_of_call,
    loop_stopped,
    may_be_repeated,
    run_is_full,
)
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from mcp_tools_proxy.policy.runs.run_memory import (
    RunFull,
    RunMemory,
)
from mcp_tools_proxy.storage.runs.run_store import RunStore, run_key

if TYPE_CHECKING:
    from mcp_tools_proxy.gateway.approvals import Approvals, WantedApproval

log = structlog.get_logger()

Make = Callable[[Call], Awaitable[Ok]]
"""Makes a call that was admitted. Raises ProxyError."""


class RunChecks:
    """Makes calls if their runs and the policies permit it (contract §1, order of checks).

    ``open_approvals`` opens the approvals on first use, because ciphers are slow to import. ``now``
    returns the time in the zone in which policies read the clock.
    """

    def __init__(
        self,
        store: RunStore,
        rules: ActiveRunRules,
        open_approvals: "Callable[[], Awaitable[Approvals]]",
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._rules = rules
        self.now = now
        self._open_approvals = open_approvals

    def apply_to(self, call: Call) -> bool:
        """Return whether there is anything to check: a run, or policies."""
        return call.run is not None or self._rules.current.has_policies

    async def call(
        self, call: Call, spec: ComponentSpec, note: RunNote, make: Make, *, completes: bool = False
    ) -> Ok:
        """Make a call that its run and the policies permit; ``completes`` for a completion.

        Raises PolicyDenied, PolicyUnavailable, RunRequired, RunExpired, LoopStopped,
        ApprovalPending, StateUnavailable, and what ``make`` raises.
        """
        checked = await self._begun(call, spec, note, completes=completes)
        if call.run is None and checked.grant is None:
            return await make(call)
        try:
            made = await make(call if checked.grant is None else replace(call, is_sent_once=True))
        except Exception as error:
            await self._end(checked, error if isinstance(error, ProxyError) else InternalError())
            raise
        await self._end(checked, made)
        return made

    async def replayed(self, call: Call) -> None:
        """Keep the declarations of a replayed call; its run has read the outcome before.

        Raises RunExpired, LoopStopped, StateUnavailable.
        """
        run = call.run
        if run is None:
            return

        def declare(memory: RunMemory) -> ProxyError | None:
            try:
                memory.declare(run)
            except RunFull as full:
                return run_is_full(full)
            return None

        refusal = await self._store.update(run_key(call.caller, run.run_id), declare)
        if refusal is not None:
            raise refusal

    async def refused(self, call: Call, error: ProxyError) -> ProxyError:
        """Count a call that failed before its run was asked, and return the error to show.

        The fourth identical one is stopped, like any other loop. The request's declarations are
        kept, because the next one may omit them. If those that narrow the run cannot be kept, that
        is the error, unless the run has ended. A call over its budget is not counted.
        """
        run = call.run
        if run is None or isinstance(error, RunRefused):
            return error
        is_counted = not isinstance(error, RateLimitExceeded)
        narrows = run.tools is not None or run.read_only
        if not (is_counted or narrows or run.task):
            return error
        digest = digest_of_call(call, call.name)

        def count(memory: RunMemory) -> ProxyError:
            try:
                memory.declare(run)
            except RunFull as full:
                return run_is_full(full)
            if not is_counted:
                return error
            is_loop = memory.is_loop(digest)
            memory.refuse(digest, may_be_repeated=is_loop or may_be_repeated(error))
            return loop_stopped() if is_loop else error

        try:
            return await self._store.update(run_key(call.caller, run.run_id), count)
        except RunExpired:
            return error
        except ProxyError as lost:
            return lost if narrows else error

    async def decide(self, call: Call, spec: ComponentSpec) -> None:
        """Decide on a call that is not made. Raises like ``call``."""
        checked = await self._checked(call, spec, RunNote())
        refusal = await self._peeked(checked)
        while isinstance(refusal, ApprovalNeeded):
            approvals = await self._open_approvals()
            with decided_by(refusal.policies):
                checked.grant = await approvals.peek(checked.wanted(approvals, refusal))
            refusal = await self._peeked(checked)
        if refusal is not None:
            raise refusal

    async def _peeked(self, checked: "CheckedCall") -> "Refusal":
        """Return the refusal of a call, without counting it."""
        call = checked.call
        if call.run is None:
            return checked.decide(None)
        key = run_key(call.caller, call.run.run_id)
        return await self._store.peek(key, partial(checked.begin, call.run))

    async def _begun(
        self, call: Call, spec: ComponentSpec, note: RunNote, *, completes: bool = False
    ) -> "CheckedCall":
        """Decide on a call, and count it before it is sent.

        With an approval the decision is made again, because other calls of the run can have changed
        it. The approval is taken last: a call that is refused does not use it.
        """
        checked = await self._checked(call, spec, note, completes=completes)
        refusal = await self._counted(checked)
        while isinstance(refusal, ApprovalNeeded):
            approvals = await self._open_approvals()
            wanted = checked.wanted(approvals, refusal)
            with decided_by(refusal.policies):
                checked.grant = await approvals.granted(wanted)
            policies, refusal = refusal.policies, await self._counted(checked)
            if refusal is None:
                with decided_by(policies):
                    await self._use(checked, approvals, wanted)
                note.approval_id = checked.grant.facts.approval_id
        if refusal is not None:
            raise refusal
        return checked

    async def _counted(self, checked: "CheckedCall") -> "Refusal":
        """Return the refusal of a call, if any; its run counts the refusal or the call."""
        call = checked.call
        if call.run is None:
            return checked.decide(None)
        key = run_key(call.caller, call.run.run_id)
        return await self._store.update(key, partial(checked.begin, call.run))

    async def _use(
        self, checked: "CheckedCall", approvals: "Approvals", wanted: "WantedApproval"
    ) -> None:
        """Take the approval of a call that is counted."""
        grant, checked.grant = checked.grant, None
        assert grant is not None  # noqa: S101 - for mypy
        try:
            await approvals.use(grant, wanted)
        except ProxyError as error:
            error.nothing_ran = True  # another repetition may have used the approval
            await self._end(checked, error)
            raise
        checked.grant = grant

    async def _checked(
        self, call: Call, spec: ComponentSpec, note: RunNote, *, completes: bool = False
    ) -> "CheckedCall":
        checked = CheckedCall(
            call, spec, self._rules.current, note, self.now(), completes=completes
        )
        if checked.is_long:
            await asyncio.to_thread(checked.find_embedded)
        return checked

    async def _end(self, checked: "CheckedCall", made: Ok | ProxyError) -> None:
        """Keep the outcome of a call. If that fails, later calls may be refused, but not permitted.

        Only kept values vouch, and the labels of the call were kept before it was sent. The label
        of an untrusted document is known only after the call: the answer leaves after its run has
        the label. Raises RunExpired, LoopStopped, StateUnavailable.
        """
        if checked.grant is not None:
            code = "OK" if isinstance(made, Ok) else made.code
            await (await self._open_approvals()).end(checked.grant, code)
        run = checked.call.run
        if run is None:
            return
        if isinstance(made, Ok) and len(made.result_json) > LONG_CHARS:
            await asyncio.to_thread(checked.find_values, made)
        elif isinstance(made, Ok):
            checked.find_values(made)
        try:
            refusal = await self._store.update(
                run_key(checked.call.caller, run.run_id),
                lambda memory: checked.end(memory, made),
                may_begin=False,
            )
        except ProxyError as error:
            if made.reads_untrusted:
                raise
            log.warning(
                "run.outcome_not_kept",
                trace_id=checked.call.trace_id,
                code=error.code,
                reason=error.reason,
            )
            return
        if refusal is not None:
            raise refusal
