"""Builds a route of the HTTP API: what serves it, and how the OpenAPI document describes it."""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from fastapi import Response
from fastapi.params import Depends
from pydantic import BaseModel

from mcp_tools_proxy.api.endpoint import BodyReader, EndpointFactory, Handler
from mcp_tools_proxy.api.openapi import Examples, Parameters, Responses, request_body, security
from mcp_tools_proxy.web.fast_routes import DirectRoute

ModelT = TypeVar("ModelT", bound=BaseModel)


class RouteBuilder:
    """Builds the routes that ``routes.py`` lists. An operation has the name of its handler.

    ``needs_token`` is whether callers need a token; a route for which that differs says so.
    """

    def __init__(self, endpoints: EndpointFactory, *, needs_token: bool) -> None:
        self._endpoints = endpoints
        self._needs_token = needs_token

    def get(
        self,
        path: str,
        handler: Handler[None],
        *,
        summary: str,
        responses: Responses,
        description: str | None = None,
        parameters: Parameters = (),
        needs_token: bool | None = None,
    ) -> DirectRoute:
        """Build a route for GET."""
        return DirectRoute(
            path,
            self._endpoints.without_body(handler),
            name=handler.__name__,
            methods=["GET"],
            summary=summary,
            description=description,
            response_class=Response,
            responses=responses,
            openapi_extra={"parameters": [*parameters]} if parameters else None,
            dependencies=self._security(needs_token),
        )

    def with_body(
        self,
        method: str,
        path: str,
        handler: Handler[ModelT],
        model: type[ModelT] | BodyReader[ModelT],
        *,
        examples: Examples,
        summary: str,
        description: str,
        responses: Responses,
        parameters: Parameters = (),
        needs_token: bool | None = None,
        is_fast: bool = False,
    ) -> DirectRoute:
        """Build a route whose handler gets the body as ``model``; see EndpointFactory."""
        described = model.described if isinstance(model, BodyReader) else model
        return DirectRoute(
            path,
            self._endpoints.with_body(model, handler),
            is_fast=is_fast,
            name=handler.__name__,
            methods=[method],
            summary=summary,
            description=description,
            response_class=Response,
            responses=responses,
            openapi_extra={"parameters": [*parameters]},
            describe_body=partial(request_body, described, examples),
            dependencies=self._security(needs_token),
        )

    def _security(self, needs_token: bool | None) -> Sequence[Depends]:
        return security(needed=self._needs_token if needs_token is None else needs_token)
