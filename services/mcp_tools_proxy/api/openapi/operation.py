"""Describes one operation in the OpenAPI document, and the tags that group operations."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from fastapi import Security
from fastapi.params import Depends
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from mcp_tools_proxy.api.openapi.examples import NO_EXAMPLES, Examples
from mcp_tools_proxy.api.openapi.parameters import (
    header_parameters,
    path_parameters,
    query_parameters,
)
from mcp_tools_proxy.api.openapi.responses import Responses, describe_responses
from mcp_tools_proxy.api.openapi.shared_schemas import JsonSchema, add_schema
from mcp_tools_proxy.web.fast_routes import Components


class Tag(StrEnum):
    """The groups of operations; a client that is made from the document has a module for each."""

    CALLS = "calls"
    LISTS = "lists"
    PRESETS = "presets"
    DOCUMENTS = "documents"
    AUDIT = "audit"
    LOGINS = "logins"
    TOKENS = "tokens"
    STATUS = "status"
    HEALTH = "health"


TAGS = [
    {"name": Tag.CALLS.value, "description": "Run tools, get prompts, read resources."},
    {"name": Tag.LISTS.value, "description": "List tools, prompts, resources and documents."},
    {"name": Tag.PRESETS.value, "description": "List presets, show and switch the active one."},
    {"name": Tag.DOCUMENTS.value, "description": "Manage documents, for operators."},
    {
        "name": Tag.AUDIT.value,
        "description": "Search and stream the audit log, for operators with the right `audit`.",
    },
    {
        "name": Tag.LOGINS.value,
        "description": "Logins to downstream servers. Users can manage their own.",
    },
    {
        "name": Tag.TOKENS.value,
        "description": "Bearer tokens, for operators with the right `tokens`.",
    },
    {
        "name": Tag.STATUS.value,
        "description": (
            "Show downstream servers and the connection to the remote backend; show and change "
            "the log level."
        ),
    },
    {"name": Tag.HEALTH.value, "description": "Probes and metrics."},
]
"""What the OpenAPI document says of the tags, in the order in which it lists them."""


class Operation(NamedTuple):
    """What the OpenAPI document has of an operation."""

    operation_id: str
    tag: Tag
    summary: str
    responses: Responses
    description: str | None = None
    headers: Sequence[str] = ()
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    examples: Examples = NO_EXAMPLES
    files: Mapping[str, str] = {}
    """Of a body that may be a file: what it is, by media type."""
    path: type[BaseModel] | None = None
    """The parameters of the path."""

    def describe(self, components: Components) -> Mapping[str, object]:
        """Describe parameters, body and responses; add what they share to ``components``."""
        described: dict[str, object] = {}
        if parameters := self._parameters(components):
            described["parameters"] = parameters
        if self.body is not None:
            described["requestBody"] = self._request_body(components, self.body)
        elif self.files:
            described["requestBody"] = self._file_body()
        return {**described, "responses": describe_responses(components, self.responses)}

    def _parameters(self, components: Components) -> list[JsonSchema]:
        path = path_parameters(components, self.path) if self.path is not None else []
        query = query_parameters(components, self.query) if self.query is not None else []
        return [*path, *query, *header_parameters(components, self.headers)]

    def _request_body(self, components: Components, body: type[BaseModel]) -> JsonSchema:
        content = {
            "schema": add_schema(components, body, "validation"),
            "examples": {name: {"value": value} for name, value in self.examples.items()},
        }
        return {"required": True, "content": {"application/json": content}}

    def _file_body(self) -> JsonSchema:
        content = {
            media_type: {"schema": {"type": "string", "format": "binary", "description": what}}
            for media_type, what in self.files.items()
        }
        return {"required": True, "content": content}


_BEARER = HTTPBearer(
    scheme_name="bearer",
    description="A caller's or an operator's token.",
    auto_error=False,  # the endpoints check the token themselves
)


def security(*, needed: bool) -> Sequence[Depends]:
    """Return the dependencies that describe a route's need of a bearer token."""
    return [Security(_BEARER)] if needed else []
