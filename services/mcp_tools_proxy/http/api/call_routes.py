"""Handlers that run a tool, get a prompt or read a resource.

Also defines the effect of a disconnect on calls with an idempotency key.
"""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from fastapi import Response

from mcp_tools_proxy.auth.caller_resolver import CallerResolver
from mcp_tools_proxy.documents.tools.local_tools import EXAMPLES
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.domain.run import RunRequest
from mcp_tools_proxy.gateway.executor import Executor
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, resolve_user
from mcp_tools_proxy.http.api.models import (
    ExecuteRequest,
    PromptRequest,
    RequestContext,
    ResourceRequest,
)
from mcp_tools_proxy.http.api.openapi import (
    CALL_HEADERS,
    CALL_RESPONSES,
    IDEMPOTENCY_HEADER,
    TOOL_HEADERS,
    Examples,
    Tag,
)
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.body import cancel_on_disconnect
from mcp_tools_proxy.http.request_headers import only_header, trace_context_from
from mcp_tools_proxy.http.request_refusals import route_of
from mcp_tools_proxy.http.responses import outcome_response
from mcp_tools_proxy.wire.identifiers import (
    IDEMPOTENCY_KEY_RULE,
    is_idempotency_key,
    is_identifier,
)
from mcp_tools_proxy.wire.run_fields import RUN_HEADER, RUN_ID_RULE

EXAMPLE_USER = {"user_id": "user_1", "tenant_id": "tenant_1"}

EXECUTE_EXAMPLES: Examples = {
    tool_name: {"tool_name": tool_name, "arguments": arguments, "user": EXAMPLE_USER}
    for tool_name, arguments in EXAMPLES.items()
}

PROMPT_EXAMPLES: Examples = {
    "with an argument": {
        "name": "weekly_review",
        "arguments": {"topic": "vpn"},
        "user": EXAMPLE_USER,
    }
}

RESOURCE_EXAMPLES: Examples = {"by URI": {"uri": "notes://all", "user": EXAMPLE_USER}}


T = TypeVar("T")


def idempotency_key_of(parsed: ParsedRequest[RequestContext], of_body: str | None) -> str | None:
    """Return the idempotency key of a request, from the header or ``of_body``.

    Raises InvalidRequest for a header that is malformed, repeated, or different from the body's.
    """
    key = _header_of(parsed, IDEMPOTENCY_HEADER)
    if key is None:
        return of_body
    if not is_idempotency_key(key):
        raise _invalid(IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY_RULE)
    if of_body not in (None, key):
        raise _invalid(
            IDEMPOTENCY_HEADER, "differs from the body's idempotency_key; send only one of them"
        )
    return key


def run_of(parsed: ParsedRequest[RequestContext]) -> RunRequest | None:
    """Return the run of a request, from its body or ``X-Run-Id``.

    Raises InvalidRequest for a header that is malformed, repeated, or different from the body's.
    """
    of_body, run_id = parsed.body.run, _header_of(parsed, RUN_HEADER)
    if of_body is None:
        if run_id is None:
            return None
        if not is_identifier(run_id):
            raise _invalid(RUN_HEADER, RUN_ID_RULE)
        return RunRequest(run_id=run_id)
    if run_id not in (None, of_body.id):
        raise _invalid(RUN_HEADER, "differs from the body's run.id; send only one of them")
    return of_body.request()


_RAW_NAMES = {it: it.lower().encode() for it in (IDEMPOTENCY_HEADER, RUN_HEADER)}


def _header_of(parsed: ParsedRequest[RequestContext], header: str) -> str | None:
    """Return the text of a header, which is UTF-8. Raises InvalidRequest for a repeated one."""
    try:
        return only_header(parsed.request.headers, _RAW_NAMES[header])
    except ValueError as error:
        raise _invalid(header, str(error)) from None


def key_in_batch(of_batch: str | None, place: int) -> str | None:
    """Return the key of a call whose batch has a key: the batch's key and the call's position.

    Callers' keys contain no control characters, so none is the same.
    """
    return None if of_batch is None else f"{of_batch}\0{place}"


async def carry_out(
    parsed: ParsedRequest[RequestContext], work: Awaitable[T], calls: Sequence[Call]
) -> T:
    """Return the result of ``work``; cancel it when the caller disconnects.

    A call with an idempotency key is completed, as its caller can fetch the outcome with a retry.
    """
    for call in calls:
        if call.idempotency_key is not None:
            return await work
    return await cancel_on_disconnect(parsed.request.receive, work)


def _invalid(header: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"{header}: {problem}", details={"field": header})


class _Uses(Feature):
    """Operations that use components, all through the executor and its checks."""

    tag = Tag.CALLS

    def __init__(self, callers: CallerResolver, executor: Executor) -> None:
        self._callers = callers
        self._executor = executor

    async def _use(self, parsed: ParsedRequest[RequestContext], call: Call) -> Response:
        outcome = await carry_out(parsed, self._executor.execute(call), [call])
        return outcome_response(outcome, call.trace_id)


class CallRoutes(_Uses):
    """The operation that runs tools."""

    @operation(
        "POST",
        "/internal/mcp/execute",
        responses=CALL_RESPONSES,
        headers=TOOL_HEADERS,
        examples=EXECUTE_EXAMPLES,
        is_fast=True,
    )
    async def execute(self, parsed: ParsedRequest[ExecuteRequest]) -> Response:
        """Run one tool.

        Errors that the model or its runtime can handle are HTTP 200 answers with status `error`.
        `docs/reference/errors.md` describes what to do about each code.
        """
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        key = idempotency_key_of(parsed, body.idempotency_key)
        return await self._use(
            parsed, call_of(parsed, caller, body.tool_name, body.arguments, idempotency_key=key)
        )


class ItemRoutes(_Uses):
    """Operations that use prompts and resources."""

    @operation(
        "POST",
        "/internal/mcp/prompts/get",
        responses=CALL_RESPONSES,
        headers=CALL_HEADERS,
        examples=PROMPT_EXAMPLES,
        is_fast=True,
    )
    async def get_prompt(self, parsed: ParsedRequest[PromptRequest]) -> Response:
        """Get one prompt.

        The result contains the `messages` of the server.
        """
        caller = await resolve_user(self._callers, parsed)
        body = parsed.body
        call = call_of(parsed, caller, body.name, body.arguments, kind=Kind.PROMPT)
        return await self._use(parsed, call)

    @operation(
        "POST",
        "/internal/mcp/resources/read",
        responses=CALL_RESPONSES,
        headers=CALL_HEADERS,
        examples=RESOURCE_EXAMPLES,
        is_fast=True,
    )
    async def read_resource(self, parsed: ParsedRequest[ResourceRequest]) -> Response:
        """Read one resource.

        The result contains the `contents` of the server.
        """
        caller = await resolve_user(self._callers, parsed)
        call = call_of(parsed, caller, parsed.body.uri, None, kind=Kind.RESOURCE)
        return await self._use(parsed, call)


def call_of(
    parsed: ParsedRequest[RequestContext],
    caller: Caller,
    name: str,
    arguments: dict[str, object] | None,
    *,
    kind: Kind = Kind.TOOL,
    idempotency_key: str | None = None,
) -> Call:
    """Return the call of a request for a caller."""
    return Call(
        name=name,
        kind=kind,
        arguments=arguments or {},
        caller=caller,
        sources=parsed.body.sources,
        trace_id=parsed.trace_id,
        trace_context=trace_context_from(parsed.request.headers),
        idempotency_key=idempotency_key,
        run=run_of(parsed),
        route=route_of(parsed.request.scope),
    )
