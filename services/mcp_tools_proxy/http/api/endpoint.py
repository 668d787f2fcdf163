"""Builds endpoints: read, parse and validate the body, call the handler, or refuse the request.

Also determines the caller from body and query, and refuses missing fields.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Generic, TypeVar, get_args, get_origin

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.auth.caller_resolver import CallerResolver, read_headers
from mcp_tools_proxy.domain.caller import NO_TENANT, Caller
from mcp_tools_proxy.domain.errors import InvalidRequest, ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import NO_ASSERTION, AssertedIdentity, roles_of
from mcp_tools_proxy.domain.proxy_error import without_frames
from mcp_tools_proxy.http.api.models import CallerQuery, RequestContext
from mcp_tools_proxy.http.body import BodyLimits, parse_body, read_body
from mcp_tools_proxy.http.request_headers import TRACE_HEADER, trace_context_from, trace_id_from
from mcp_tools_proxy.http.request_refusals import RequestRefusals
from mcp_tools_proxy.http.responses import error_response
from mcp_tools_proxy.telemetry.spans import TRACE_ID, Tracer
from mcp_tools_proxy.wire.problem_texts import (
    closest_match,
    did_you_mean,
    place_of,
    problem_of,
)
from mcp_tools_proxy.wire.text import QUOTE_CHARS

_RAW_TRACE_HEADER = TRACE_HEADER.lower().encode()

MAX_PARAMETERS = 3_000
"""Limit of query parameters; routes accept at most 1,000 roles and 1,000 documents."""

T = TypeVar("T")
Body_co = TypeVar("Body_co", covariant=True)
ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ParsedRequest(Generic[Body_co]):
    """A request for a handler: ``body`` is validated, or None without a body."""

    request: Request
    body: Body_co
    trace_id: str
    body_bytes: int = 0


Handler = Callable[[ParsedRequest[T]], Awaitable[Response]]
"""Builds the response to a request, or raises ProxyError to refuse it."""

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyReader(Generic[T]):
    """Reads a body of one of several models; OpenAPI shows ``described``.

    ``read`` validates the JSON and can raise ProxyError.
    """

    described: type[BaseModel]
    read: Callable[[object], T]


class EndpointFactory:
    """Builds endpoints that apply the input rules (contract §1) before they call a handler."""

    def __init__(self, refusals: RequestRefusals, *, limits: BodyLimits) -> None:
        self._refusals = refusals
        self._limits = limits

    def with_body(
        self,
        model: type[ModelT] | BodyReader[ModelT],
        handler: Handler[ModelT],
        before_body: Callable[[Request], Awaitable[object]] | None = None,
    ) -> Endpoint:
        """Build an endpoint whose handler gets the body as ``model``, or as its reader returns it.

        ``before_body`` can raise ProxyError to refuse the request unread.
        """
        read = model.read if isinstance(model, BodyReader) else partial(validate, model)

        async def endpoint(request: Request) -> Response:
            body: object = None
            trace_id = ""
            try:
                if before_body is not None:
                    await before_body(request)
                data = await read_body(request.receive, self._limits.max_bytes)
                body = await parse_body(data, self._limits)
                valid = read(body)
                trace_id = trace_id_from(body, request.headers)
                response = await handler(ParsedRequest(request, valid, trace_id, len(data)))
            except ProxyError as error:
                trace_id = trace_id or trace_id_from(body, request.headers)
                return self._refuse(request, error, trace_id)
            except BaseException as error:
                trace_id = trace_id or trace_id_from(body, request.headers)
                self._record_end(request, error, trace_id)
                raise
            self._refusals.record_operation(request.scope, "OK", trace_id)
            return response

        return endpoint

    def without_body(self, handler: Handler[None]) -> Endpoint:
        """Build an endpoint for a request without a body."""

        async def endpoint(request: Request) -> Response:
            trace_id = trace_id_from(None, request.headers)
            try:
                _check_query(request.scope["query_string"])
                response = await handler(ParsedRequest(request, None, trace_id))
            except ProxyError as error:
                return self._refuse(request, error, trace_id)
            except BaseException as error:
                self._record_end(request, error, trace_id)
                raise
            self._refusals.record_operation(request.scope, "OK", trace_id)
            return response

        return endpoint

    def _refuse(self, request: Request, error: ProxyError, trace_id: str) -> Response:
        self._refusals.record_refusal(request.scope, error, trace_id)
        return error_response(without_frames(error), trace_id)

    def _record_end(self, request: Request, error: BaseException, trace_id: str) -> None:
        has_left = isinstance(error, (asyncio.CancelledError, ClientDisconnect))
        code = "CANCELLED" if has_left else "INTERNAL_ERROR"
        self._refusals.record_operation(request.scope, code, trace_id)


def traced(tracer: Tracer, method: str, path: str, endpoint: Endpoint) -> Endpoint:
    """Build an endpoint whose requests have spans; ``path`` is the route's, with its parameters."""
    attributes = {"http.request.method": method, "http.route": path}

    async def traced_endpoint(request: Request) -> Response:
        context = trace_context_from(request.headers)
        with tracer.start_request(f"{method} {path}", attributes, context) as span:
            response = await endpoint(request)
            if span.is_recording:
                headers = dict(response.raw_headers)
                span.set(
                    {
                        "http.response.status_code": response.status_code,
                        TRACE_ID: headers.get(_RAW_TRACE_HEADER, b"").decode(),
                    }
                )
                if response.status_code >= 500:
                    span.fail(str(response.status_code))
            return response

    return traced_endpoint


def validate(model: type[ModelT], body: object) -> ModelT:
    """Validate ``body`` against ``model``. Raises InvalidRequest naming the field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise invalid_request(first) from None


def _check_query(query: bytes) -> None:
    if query.count(b"&") >= MAX_PARAMETERS:
        raise InvalidRequest(
            f"query: has over {MAX_PARAMETERS} parameters, the limit; send fewer",
            details={"field": "query"},
        )


def single_values(query: QueryParams, several: Collection[str] = ()) -> dict[str, object]:
    """Return a query; only ``several`` can be given more than once. Raises InvalidRequest.

    It is read in one pass: a search for each key blocked the event loop for 6 s.
    """
    found: dict[str, object] = {}
    lists: dict[str, list[str]] = {}
    for key, value in query.multi_items():
        if key in several:
            lists.setdefault(key, []).append(value)
        elif key in found:
            name = key[:QUOTE_CHARS]
            raise InvalidRequest(f"{name}: is given twice; keep one", details={"field": name})
        else:
            found[key] = value
    return {**found, **lists}


def validate_query(model: type[ModelT], query: Mapping[str, object]) -> ModelT:
    """Validate a query. Raises InvalidRequest naming the parameter, also an unknown one."""
    try:
        return model.model_validate(query)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
    for problem in problems:
        if problem["type"] == "extra_forbidden":
            known = [it.alias or name for name, it in model.model_fields.items()]
            name = str(problem["loc"][0])[:QUOTE_CHARS]
            hint = did_you_mean(closest_match(name, known), f"; known are {', '.join(known)}")
            raise InvalidRequest(f"{name}: is not a known parameter{hint}", details={"field": name})
    raise invalid_request(problems[0])


def list_fields(model: type[BaseModel]) -> Collection[str]:
    """Return the query parameters that can be given more than once."""
    return [
        field.alias or name
        for name, field in model.model_fields.items()
        if any(_is_list(it) for it in (field.annotation, *get_args(field.annotation)))
    ]


def _is_list(annotation: object) -> bool:
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return get_origin(bare) is list


def invalid_request(error: ErrorDetails | Mapping[str, object]) -> InvalidRequest:
    """Convert a validation error of pydantic; the result names the field."""
    field = place_of(error, whole="body")
    return InvalidRequest(f"{field}: {problem_of(error)}", details={"field": field})


async def resolve_user(callers: CallerResolver, parsed: ParsedRequest[RequestContext]) -> Caller:
    """Return the caller of a request with a body; tenant and user are always set.

    Raises InvalidRequest naming a missing field, Unauthenticated, Forbidden, AgentRequired.
    """
    context = parsed.body
    caller = await callers.resolve(parsed.request.scope, asserted_by_body(context))
    if caller.tenant_id != NO_TENANT and caller.user_id:
        return caller
    field = "user.user_id"
    if caller.tenant_id == NO_TENANT:
        field = "user.tenant_id" if caller.user_id or context.user is not None else "user"
    raise InvalidRequest(f"{field}: is missing", details={"field": field})


def require_user(asserted: AssertedIdentity) -> None:
    """Raise InvalidRequest if a body does not name both tenant and user."""
    for field, value in (
        ("user.tenant_id", asserted.tenant_id),
        ("user.user_id", asserted.user_id),
    ):
        if value is None:
            raise InvalidRequest(f"{field}: is missing", details={"field": field})


def asserted_by_query(query: CallerQuery) -> AssertedIdentity:
    """Return the identity that the query of a list asserts."""
    return AssertedIdentity(
        tenant_id=query.tenant_id,
        user_id=query.user_id,
        roles=None if query.roles is None else roles_of(query.roles),
        agent=query.agent,
        documents=_documents(query.documents),
    )


async def require_authentication(authenticator: Authenticator, request: Request) -> bool:
    """Check the token if callers need one; return whether the caller is an operator.

    If callers need no token, each counts as an operator. Raises InvalidRequest, Unauthenticated.
    """
    authorization, _ = read_headers(request.headers.raw)
    return await authenticator.is_operator(authorization)


def asserted_by_body(context: RequestContext) -> AssertedIdentity:
    """Return the identity that a body asserts."""
    user, documents = context.user, _documents(context.documents)
    if user is None:
        if context.agent is None and documents is None:
            return NO_ASSERTION
        return AssertedIdentity(agent=context.agent, documents=documents)
    return AssertedIdentity(
        tenant_id=user.tenant_id,
        user_id=user.user_id,
        roles=None if user.roles is None else roles_of(user.roles),
        agent=context.agent,
        documents=documents,
    )


def _documents(ids: Sequence[str] | None) -> frozenset[str] | None:
    return None if ids is None else frozenset(ids)
