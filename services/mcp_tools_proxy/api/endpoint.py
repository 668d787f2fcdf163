"""Builds endpoints: read the body, parse it, validate it, answer, or refuse the request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.web.body import BodyLimits, read_body
from mcp_tools_proxy.web.envelope import error_response
from mcp_tools_proxy.web.request_refusals import RequestRefusals
from mcp_tools_proxy.web.trace_headers import trace_id_from
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of
from mcp_tools_proxy.wire.request_json import parse_request

T = TypeVar("T")
Body_co = TypeVar("Body_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ParsedRequest(Generic[Body_co]):
    """A request whose body was read and validated; ``body`` is the result of the check."""

    request: Request
    body: Body_co
    trace_id: str


Endpoint = Callable[[Request], Awaitable[Response]]


class EndpointFactory:
    """Builds endpoints that apply the input rules (contract §1) before they do anything."""

    def __init__(self, refusals: RequestRefusals, *, limits: BodyLimits) -> None:
        self._refusals = refusals
        self._limits = limits

    def with_body(
        self,
        check: Callable[[object], T],
        answer: Callable[[ParsedRequest[T]], Awaitable[Response]],
    ) -> Endpoint:
        """Build an endpoint for a request with a body; ``check`` validates its JSON for ``answer``.

        Both may raise ProxyError; then the request is refused with it.
        """

        async def endpoint(request: Request) -> Response:
            body: object = None
            try:
                data = await read_body(request.receive, self._limits.max_bytes)
                body = parse_request(data, max_items=self._limits.max_items)
                checked = check(body)
                trace_id = trace_id_from(body, request.headers)
                return await answer(ParsedRequest(request, checked, trace_id))
            except ProxyError as error:
                return self._refuse(request, error, trace_id_from(body, request.headers))

        return endpoint

    def without_body(self, answer: Callable[[Request, str], Awaitable[Response]]) -> Endpoint:
        """Build an endpoint for a request without a body; ``answer`` gets its trace_id as well.

        ``answer`` may raise ProxyError; then the request is refused with it.
        """

        async def endpoint(request: Request) -> Response:
            trace_id = trace_id_from(None, request.headers)
            try:
                return await answer(request, trace_id)
            except ProxyError as error:
                return self._refuse(request, error, trace_id)

        return endpoint

    def _refuse(self, request: Request, error: ProxyError, trace_id: str) -> Response:
        """Build the response to a refused request, and count and log the refusal."""
        self._refusals.record_refusal(request.scope, error, trace_id)
        return error_response(error, trace_id)


ModelT = TypeVar("ModelT", bound=BaseModel)


def validate(model: type[ModelT], body: object) -> ModelT:
    """Validate ``body`` against ``model``. Raises InvalidRequest naming the field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise invalid_request(first) from None


def invalid_request(error: ErrorDetails | Mapping[str, object]) -> InvalidRequest:
    """Convert a validation error of pydantic's; the result names the field."""
    field = place_of(error, whole="body")
    return InvalidRequest(f"{field}: {problem_of(error)}", details={"field": field})
