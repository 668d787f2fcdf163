"""One call, from request to outcome, in one straight line."""

import asyncio
import time
from collections.abc import Callable

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.component import JsonObject
from mcp_tools_proxy.domain.errors import (
    ContentBlocked,
    InternalError,
    ProxyError,
    ResultTooLarge,
)
from mcp_tools_proxy.domain.outcome import CallRecord, Failed, Ok, Outcome
from mcp_tools_proxy.domain.tool import Tool, ToolSpec
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.registry import RegistryHolder
from mcp_tools_proxy.policy.blocklist import Blocklist
from mcp_tools_proxy.ratelimit.limiter import Limiter

BUDGET_ARGUMENT = "doc_id"
"""A tool whose input schema declares this argument is limited by its value as well (T-08)."""

log = structlog.get_logger()


class Executor:
    """Runs calls: every entry of the gateway ends here (contract §1, order of checks)."""

    def __init__(
        self,
        *,
        registry: RegistryHolder,
        limiter: Limiter,
        blocklist: Blocklist,
        lifecycle: Lifecycle,
        max_result_bytes: int,
        record: Callable[[CallRecord], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._registry = registry
        self._limiter = limiter
        self._blocklist = blocklist
        self._lifecycle = lifecycle
        self._max_result_bytes = max_result_bytes
        self._record = record
        self._clock = clock

    async def execute(self, call: Call) -> Outcome:
        """Run one call; every failure but cancelling is an outcome, and each call leaves a record.

        Up to and including RATE_LIMIT_EXCEEDED nothing is charged; after it one call is charged,
        whatever happens, and its tokens when it is done.
        """
        started = self._clock()
        registry = self._registry.current
        tool: Tool | None = None
        outcome: Outcome | None = None
        try:
            self._lifecycle.check_serving()
            tool = registry.resolve(call.name, call.caller)
            outcome = await self._lifecycle.run(self._run(tool, call))
        except ProxyError as error:
            outcome = Failed(error=error)
        except Exception:
            log.exception("call.crashed", tool=call.name, trace_id=call.trace_id)
            outcome = Failed(error=InternalError("internal error; the log has the trace_id"))
        finally:
            self._record(
                CallRecord(
                    call=call,
                    spec=tool.spec if tool is not None else None,
                    outcome=outcome,
                    duration_s=self._clock() - started,
                )
            )
        return outcome

    async def _run(self, tool: Tool, call: Call) -> Ok:
        parsed = tool.parse(call.arguments)
        if await self._is_blocked(call.arguments):
            raise ContentBlocked("an argument holds a blocked keyword; rephrase it")
        scope = _scope(tool.spec, call)
        admission = await self._limiter.admit(call.caller.tenant_id, scope)
        result = await tool.run(parsed, call)
        result_json = to_json(result.value)
        size = len(result_json)
        if size > self._max_result_bytes:
            raise ResultTooLarge(
                f"the result is {size} bytes as JSON, the limit is {self._max_result_bytes}; "
                "ask for less at a time, or read pages with read_doc_pages",
                details={"bytes": size, "max_result_bytes": self._max_result_bytes},
            )
        await self._limiter.charge(admission, result.tokens)
        return Ok(result=result.value, result_json=result_json, tokens=result.tokens)

    async def _is_blocked(self, arguments: JsonObject) -> bool:
        if self._blocklist.is_long(arguments):
            return await asyncio.to_thread(self._blocklist.blocks, arguments)
        return self._blocklist.blocks(arguments)


def _scope(spec: ToolSpec, call: Call) -> str | None:
    if BUDGET_ARGUMENT not in spec.argument_names:
        return None
    value = call.arguments.get(BUDGET_ARGUMENT)
    return None if value is None else str(value)
