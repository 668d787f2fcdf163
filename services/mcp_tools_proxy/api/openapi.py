"""Descriptions for the OpenAPI document that FastAPI cannot derive from the endpoints."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from fastapi import Security
from fastapi.params import Depends
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from mcp_tools_proxy.api.batch.batch_examples import REPLY_EXAMPLES
from mcp_tools_proxy.api.batch.batch_models import ReplyBatchAnswer
from mcp_tools_proxy.api.models import ActivePresetAnswer, BatchAnswer, ErrorEnvelope, OkEnvelope
from mcp_tools_proxy.auth.identity_headers import AGENT_HEADER, TENANT_HEADER, USER_HEADER
from mcp_tools_proxy.wire.identifiers import IDENTIFIER_CHARS

Responses = Mapping[int, Mapping[str, object]]
"""The responses of a route by HTTP status."""

Parameters = Sequence[Mapping[str, object]]
Examples = Mapping[str, Mapping[str, object]]

ERROR_RESPONSES: Responses = {
    401: {"model": ErrorEnvelope, "description": "UNAUTHENTICATED"},
    403: {"model": ErrorEnvelope, "description": "FORBIDDEN"},
    413: {"model": ErrorEnvelope, "description": "PAYLOAD_TOO_LARGE"},
    422: {"model": ErrorEnvelope, "description": "INVALID_REQUEST: names the field"},
    500: {"model": ErrorEnvelope, "description": "INTERNAL_ERROR"},
    503: {"model": ErrorEnvelope, "description": "RETRIEVAL_NOT_CONFIGURED, SHUTTING_DOWN"},
}

READ_RESPONSES: Responses = {status: ERROR_RESPONSES[status] for status in (401, 422, 500)}
"""Errors of the routes that only show something, the same to all callers."""

CALL_RESPONSES: Responses = {200: {"model": OkEnvelope | ErrorEnvelope}, **ERROR_RESPONSES}

BATCH_RESPONSES: Responses = {200: {"model": BatchAnswer | ReplyBatchAnswer}, **ERROR_RESPONSES}

SWITCH_RESPONSES: Responses = {
    **ERROR_RESPONSES,
    200: {"model": ActivePresetAnswer},
    404: {"model": ErrorEnvelope, "description": "PRESET_NOT_FOUND"},
    409: {"model": ErrorEnvelope, "description": "PRESET_PINNED, CONFIG_READ_ONLY"},
    503: {"model": ErrorEnvelope, "description": "SHUTTING_DOWN"},
}

CALLER_HEADERS: Parameters = [
    {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string", "maxLength": IDENTIFIER_CHARS, "pattern": "^[ -~]+$"},
        "description": f"{what}, which nothing else has to say then; also any other text as UTF-8.",
    }
    for name, what in (
        (TENANT_HEADER, "The tenant"),
        (USER_HEADER, "The user"),
        (AGENT_HEADER, "The agent"),
    )
]
"""The headers that identify the caller, as OpenAPI parameters."""

_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "Entity tags of lists that the client has, or `*`.",
}

_ETAG = {
    "ETag": {"schema": {"type": "string"}, "description": "Changes when the list does."},
}

_BEARER = HTTPBearer(
    scheme_name="bearer",
    description="A token that stands for a tenant, or an operator's.",
    auto_error=False,  # the endpoints check the token themselves
)


def security(*, needed: bool) -> Sequence[Depends]:
    """Return the dependencies that describe a route's need of a bearer token."""
    return [Security(_BEARER)] if needed else []


def show_responses(model: type[BaseModel]) -> Responses:
    """Return the responses of a route that shows ``model``."""
    return {200: {"model": model}, **READ_RESPONSES}


def list_responses(model: type[BaseModel]) -> Responses:
    """Return the responses of a route that lists what a caller may use."""
    return {
        200: {"model": model | ErrorEnvelope, "headers": _ETAG},
        304: {"description": "The client has this list", "headers": _ETAG},
        **{status: ERROR_RESPONSES[status] for status in (401, 403, 422, 500)},
    }


def request_body(model: type[BaseModel], examples: Examples) -> dict[str, object]:
    """Return the description of a JSON body that the endpoint reads itself."""
    content = {
        "schema": _json_schema(model),
        "examples": {name: {"value": value} for name, value in examples.items()},
    }
    return {"required": True, "content": {"application/json": content}}


def _json_schema(model: type[BaseModel]) -> Mapping[str, object]:
    """Return the model's JSON Schema without references."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    return {key: _inline(value, definitions) for key, value in schema.items()}


def _inline(schema: object, definitions: dict[str, object]) -> object:
    """Replace references by their definitions; our models are not recursive."""
    if isinstance(schema, list):
        return [_inline(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _inline(definitions[reference.rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in schema.items()}


def list_parameters(query: type[BaseModel]) -> Parameters:
    """Return the parameters of a list: its query, which the endpoint reads itself, and headers."""
    return [*_parameters(query), *CALLER_HEADERS, _IF_NONE_MATCH]


@lru_cache(maxsize=32)
def _parameters(model: type[BaseModel]) -> Sequence[Mapping[str, object]]:
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _without_null(_inline(part, definitions)),
        }
        for name, part in schema["properties"].items()
    ]


def _without_null(schema: object) -> object:
    """Convert "T or null" to T: a query has no null."""
    match schema:
        case {"anyOf": [dict() as non_null, {"type": "null"}], **others}:
            return {**non_null, **others}
    return schema


_USER = {"user_id": "user_1", "tenant_id": "tenant_1"}

_CALLS: Examples = {
    "read_doc_section": {"doc_id": "doc_1", "section_id": "sec_intro"},
    "read_doc_pages": {"doc_id": "doc_1", "page_start": 1, "page_end": 2},
    "read_doc_metadata": {"doc_id": "doc_1"},
    "doc_local_search": {"doc_id": "doc_1", "query": "certificate", "max_results": 3},
    "read_chunk_window": {"doc_id": "doc_1", "anchor_chunk_id": "p1-c1", "radius": 1},
    "list_available_tools": {},
}

EXECUTE_EXAMPLES: Examples = {
    tool_name: {"tool_name": tool_name, "arguments": arguments, "user": _USER}
    for tool_name, arguments in _CALLS.items()
}

BATCH_EXAMPLES: Examples = {
    "two calls at once": {
        "calls": [
            {"tool_name": name, "arguments": _CALLS[name]}
            for name in ("read_doc_metadata", "doc_local_search")
        ],
        "user": _USER,
    },
    **REPLY_EXAMPLES,
}

PROMPT_EXAMPLES: Examples = {
    "with an argument": {"name": "weekly_review", "arguments": {"topic": "vpn"}, "user": _USER}
}

RESOURCE_EXAMPLES: Examples = {"by URI": {"uri": "notes://all", "user": _USER}}

PRESET_EXAMPLES: Examples = {
    "until the next start": {"preset_id": "notes", "persist": False},
    "for good": {"preset_id": "notes"},
}
