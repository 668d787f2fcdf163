"""Builds the routes of the HTTP API from the operations that features declare.

A feature is a class whose methods are operations. An operation's name, parameters, body and answer
come from the method, its texts from the docstring.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from functools import partial
from typing import Any, ClassVar, TypeVar, get_args

from fastapi import Request, Response
from pydantic import BaseModel

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.http.api.endpoint import (
    BodyReader,
    Endpoint,
    EndpointFactory,
    Handler,
    ParsedRequest,
    list_fields,
    single_values,
    traced,
    validate_query,
)
from mcp_tools_proxy.http.api.openapi import (
    TRACED,
    Answer,
    Examples,
    Operation,
    Responses,
    Tag,
    errors_of,
    security,
)
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.fast_routes import DirectRoute
from mcp_tools_proxy.http.request_headers import TRACE_HEADER
from mcp_tools_proxy.http.responses import json_response
from mcp_tools_proxy.telemetry.spans import Tracer

Method = Callable[..., Any]
MethodT = TypeVar("MethodT", bound=Method)

_DECLARED = "_declared_operation"


class Feature:
    """The operations of a feature: its methods with ``operation``, in order."""

    tag: ClassVar[Tag]


@dataclass(frozen=True, slots=True)
class operation:  # noqa: N801 - it is a decorator
    """Declares a method of a feature as an operation.

    The method's name becomes a function name in clients generated from the OpenAPI document, so it
    is part of the public API. Its docstring is the summary and the description. The method receives
    a ParsedRequest, whose type names the body's model, and a validated ``query`` if it has that
    parameter. It returns an answer's model or a response.
    """

    method: str
    path: str
    answer: str = ""
    """Description of the answer."""
    _: KW_ONLY
    model: object = None
    """The answer's model, if the method's annotation does not name it."""
    status: int = 200
    errors: Responses = field(default_factory=dict)
    """Errors in addition to those of every operation."""
    responses: Responses | None = None
    """All responses, replacing the default ones."""
    headers: Sequence[str] = TRACED
    query: type[BaseModel] | None = None
    """A query that the method reads; for the description only."""
    path_parameters: type[BaseModel] | None = None
    examples: Examples = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    right: OperatorRight | None = None
    """The right that is checked here, for the tenant in the query, if any.

    A sender without a token for it is refused before the body is read.
    """
    token_for: OperatorRight | None = None
    """A right that the method checks."""
    needs_token: bool | Method | None = None
    """Whether a token is needed, if not by the right. Like the next two, it can be a method."""
    before_body: Method | None = None
    read: Method | None = None
    """Reads a body of one of several models, which ``body`` describes."""
    body: type[BaseModel] | None = None
    is_fast: bool = False

    def __call__(self, handler: MethodT) -> MethodT:
        """Declare a method."""
        setattr(handler, _DECLARED, self)
        return handler


class RouteBuilder:
    """Builds the routes of features.

    ``needs_token`` is whether callers need a token; operations can override it.
    """

    def __init__(
        self, endpoints: EndpointFactory, gate: OperatorGate, *, needs_token: bool, tracer: Tracer
    ) -> None:
        self._endpoints = endpoints
        self._gate = gate
        self._needs_token = needs_token
        self._tracer = tracer

    def routes_of(self, feature: Feature) -> Sequence[DirectRoute]:
        """Build the routes of a feature, in the order of its methods."""
        return [
            self._route(feature, handler, declared)
            for handler in vars(type(feature)).values()
            if (declared := getattr(handler, _DECLARED, None)) is not None
        ]

    def _route(self, feature: Feature, handler: Method, declared: operation) -> DirectRoute:
        parsed, query, returned = _types_of(handler)
        summary, _, description = inspect.cleandoc(handler.__doc__ or "").partition("\n\n")
        body = None if parsed is type(None) else parsed
        described = Operation(
            handler.__name__,
            feature.tag,
            summary.removesuffix("."),
            _responses(declared, returned, has_body=body is not None),
            description.replace("\n", " ").replace("``", "`") or None,
            declared.headers,
            declared.query or query,
            body=declared.body or body,
            examples=declared.examples,
            files=declared.files,
            path=declared.path_parameters,
        )
        serve = self._handler(getattr(feature, handler.__name__), query, declared.right)
        if body is None:
            endpoint = self._endpoints.without_body(serve)
        else:
            model = body if declared.read is None else _reader(feature, declared)
            endpoint = self._endpoints.with_body(model, serve, self._before_body(feature, declared))
        return self._direct_route(endpoint, described, declared, self._needs(feature, declared))

    def _handler(
        self, method: Method, query: type[BaseModel] | None, right: OperatorRight | None
    ) -> Handler[Any]:
        several = () if query is None else list_fields(query)

        async def handle(parsed: ParsedRequest[Any]) -> Response:
            more: dict[str, BaseModel] = {}
            tenant_id = None
            if query is not None:
                values = single_values(parsed.request.query_params, several)
                more["query"] = validate_query(query, values)
                tenant_id = getattr(more["query"], "tenant_id", None)
            if right is not None:
                await self._gate.check(parsed, right, tenant_id=tenant_id)
            return response_of(await method(parsed, **more), parsed)

        return method if query is None and right is None and _responds(method) else handle

    def _before_body(
        self, feature: Feature, declared: operation
    ) -> Callable[[Request], Awaitable[object]] | None:
        if declared.before_body is not None:
            return partial(declared.before_body, feature)
        right = declared.right or declared.token_for
        return None if right is None else self._gate.before_body(right)

    def _needs(self, feature: Feature, declared: operation) -> bool:
        needs, right = declared.needs_token, declared.right or declared.token_for
        if callable(needs):
            return bool(needs(feature))
        if needs is not None:
            return needs
        return self._needs_token if right is None else self._gate.needs_token(right)

    def _direct_route(
        self, endpoint: Endpoint, described: Operation, declared: operation, needed: bool
    ) -> DirectRoute:
        if self._tracer.is_on and described.tag is not Tag.HEALTH:
            endpoint = traced(self._tracer, declared.method, declared.path, endpoint)
        return DirectRoute(
            declared.path,
            endpoint,
            is_fast=declared.is_fast,
            name=described.operation_id,
            method=declared.method,
            status_code=min(described.responses),
            operation_id=described.operation_id,
            tags=[described.tag.value],
            summary=described.summary,
            description=described.description,
            response_class=Response,
            describe=described.describe,
            dependencies=security(needed=needed),
        )


def response_of(
    answer: Response | BaseModel,
    parsed: ParsedRequest[Any],
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a method's response, or build the response for its answer."""
    if isinstance(answer, Response):
        return answer
    return json_response(answer, status, {TRACE_HEADER: parsed.trace_id, **(headers or {})})


def _types_of(handler: Method) -> tuple[Any, type[BaseModel] | None, object]:
    hints = handler.__annotations__
    (body,) = get_args(hints["parsed"])
    return body, hints.get("query"), hints["return"]


def _responds(method: Method) -> bool:
    return method.__annotations__["return"] is Response


def _reader(feature: Feature, declared: operation) -> BodyReader[Any]:
    if declared.read is None or declared.body is None:
        raise TypeError("a reader needs the model that it is described by")
    return BodyReader(described=declared.body, read=partial(declared.read, feature))


def _responses(declared: operation, returned: object, *, has_body: bool) -> Responses:
    if declared.responses is not None:
        return declared.responses
    answer = Answer(declared.answer, declared.model or returned)
    after = errors_of(413) if has_body else {}
    return {declared.status: answer, **errors_of(401, 403, 422, 500), **declared.errors, **after}
