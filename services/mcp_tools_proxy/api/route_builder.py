"""Builds a route of the HTTP API: what serves it, and how the OpenAPI document describes it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from mcp_tools_proxy.api.endpoint import BodyReader, Endpoint, EndpointFactory, Handler, traced
from mcp_tools_proxy.api.openapi.examples import Examples
from mcp_tools_proxy.api.openapi.operation import Operation, Tag, security
from mcp_tools_proxy.api.openapi.responses import Responses
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.telemetry.spans import Tracer
from mcp_tools_proxy.web.fast_routes import DirectRoute

ModelT = TypeVar("ModelT", bound=BaseModel)


class RouteBuilder:
    """Builds the routes that ``routes.py`` lists.

    ``operation_id`` is the name of a function in clients that are made from the OpenAPI document:
    a promise. ``needs_token`` is whether callers need a token; where that differs, a route says so.
    """

    def __init__(
        self, endpoints: EndpointFactory, gate: OperatorGate, *, needs_token: bool, tracer: Tracer
    ) -> None:
        self._endpoints = endpoints
        self._gate = gate
        self._needs_token = needs_token
        self._tracer = tracer

    def get(
        self,
        path: str,
        handler: Handler[None],
        *,
        operation_id: str,
        tag: Tag,
        summary: str,
        responses: Responses,
        description: str | None = None,
        query: type[BaseModel] | None = None,
        headers: Sequence[str] = (),
        needs_token: bool | None = None,
    ) -> DirectRoute:
        """Build a route for GET."""
        return self._route(
            "GET",
            path,
            self._endpoints.without_body(handler),
            Operation(operation_id, tag, summary, responses, description, headers, query),
            needs_token=needs_token,
        )

    def change(
        self,
        method: str,
        path: str,
        handler: Handler[None],
        *,
        operation_id: str,
        tag: Tag,
        summary: str,
        description: str,
        responses: Responses,
        query: type[BaseModel] | None = None,
        headers: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        path_parameters: type[BaseModel] | None = None,
    ) -> DirectRoute:
        """Build an operator's route whose handler reads the body itself, if there is one."""
        return self._route(
            method,
            path,
            self._endpoints.without_body(handler),
            Operation(
                operation_id,
                tag,
                summary,
                responses,
                description,
                headers,
                query,
                files=files or {},
                path=path_parameters,
            ),
            needs_token=True,
        )

    def with_body(
        self,
        method: str,
        path: str,
        handler: Handler[ModelT],
        model: type[ModelT] | BodyReader[ModelT],
        *,
        operation_id: str,
        tag: Tag,
        examples: Examples,
        summary: str,
        description: str,
        responses: Responses,
        query: type[BaseModel] | None = None,
        headers: Sequence[str] = (),
        needs_token: bool | None = None,
        right: OperatorRight | None = None,
        before_body: Callable[[Request], Awaitable[object]] | None = None,
        is_fast: bool = False,
    ) -> DirectRoute:
        """Build a route whose handler gets the body as ``model``; see EndpointFactory.

        ``right`` is the right that the handler checks: who has no token for it is refused before
        the body is read. ``before_body`` is such a check of another kind.
        """
        if right is not None:
            before_body = self._gate.before_body(right)
        return self._route(
            method,
            path,
            self._endpoints.with_body(model, handler, before_body),
            Operation(
                operation_id,
                tag,
                summary,
                responses,
                description,
                headers,
                query,
                body=model.described if isinstance(model, BodyReader) else model,
                examples=examples,
            ),
            needs_token=needs_token,
            is_fast=is_fast,
        )

    def _route(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        operation: Operation,
        *,
        needs_token: bool | None,
        is_fast: bool = False,
    ) -> DirectRoute:
        needed = self._needs_token if needs_token is None else needs_token
        if self._tracer.is_on and operation.tag is not Tag.HEALTH:
            endpoint = traced(self._tracer, method, path, endpoint)
        return DirectRoute(
            path,
            endpoint,
            is_fast=is_fast,
            name=operation.operation_id,
            method=method,
            status_code=min(operation.responses),
            operation_id=operation.operation_id,
            tags=[operation.tag.value],
            summary=operation.summary,
            description=operation.description,
            response_class=Response,
            describe=operation.describe,
            dependencies=security(needed=needed),
        )
