"""From a raw request to checked models: the one place that answers INVALID_REQUEST."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from mcp_tools_proxy.api.body import parse_json, read_body
from mcp_tools_proxy.api.models import CallIn, ContextIn
from mcp_tools_proxy.api.trace import trace_id_from
from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.policy.problems import place_of, problem_of

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(slots=True)
class Incoming:
    """A request's trace_id, known as soon as it can be, and its parsed JSON."""

    trace_id: str
    body: object = None

    async def read(self, request: Request, max_bytes: int) -> None:
        """Read and parse the body. Raises PayloadTooLarge, InvalidRequest, ClientDisconnect."""
        self.body = parse_json(await read_body(request.receive, max_bytes))
        self.trace_id = trace_id_from(self.body, request.headers)


def validate(model: type[ModelT], body: object) -> ModelT:
    """Check ``body`` against ``model``. Raises InvalidRequest naming the field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise invalid_request(first) from None


def invalid_request(error: ErrorDetails | Mapping[str, object]) -> InvalidRequest:
    """Make the answer to one validation error: it names the field."""
    field = place_of(error, whole="body")
    return InvalidRequest(f"{field}: {problem_of(error)}", details={"field": field})


def caller_of(context: ContextIn) -> Caller:
    """Give the caller that a request names."""
    return Caller(
        tenant_id=context.user.tenant_id,
        user_id=context.user.user_id,
        roles=tuple(context.user.roles or ()),
        agent=context.agent,
    )


def call_of(call: CallIn, caller: Caller, trace_id: str) -> Call:
    """Give the domain's call for one requested tool."""
    return Call(
        tool_name=call.tool_name,
        arguments=call.arguments or {},
        caller=caller,
        trace_id=trace_id,
    )
