"""The parameters of operations: the query of a list, and headers, shared by all that take them."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from mcp_tools_proxy.api.models import CallerQuery
from mcp_tools_proxy.api.openapi.shared_schemas import JsonSchema, property_schemas
from mcp_tools_proxy.auth.caller_resolver import (
    AGENT_HEADER,
    DOCUMENTS_HEADER,
    ROLES_HEADER,
    TENANT_HEADER,
    USER_HEADER,
)
from mcp_tools_proxy.web.fast_routes import Components
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import IDEMPOTENCY_KEY_PATTERN, IDENTIFIER_CHARS

IDEMPOTENCY_HEADER = "Idempotency-Key"

_IDENTIFIER: JsonSchema = {"type": "string", "maxLength": IDENTIFIER_CHARS, "pattern": "^[ -~]+$"}

_INSTEAD = "if the body, query and token do not name one. Send non-ASCII text as UTF-8."

HEADERS: Mapping[str, tuple[JsonSchema, str]] = {
    TENANT_HEADER: (_IDENTIFIER, "The tenant, " + _INSTEAD),
    USER_HEADER: (_IDENTIFIER, "The user, " + _INSTEAD),
    ROLES_HEADER: (
        {"type": "string", "pattern": "^[ -~]*$"},
        "The user's roles, comma-separated and percent-encoded, if the body, query and token do "
        "not name any.",
    ),
    AGENT_HEADER: (_IDENTIFIER, "The agent, " + _INSTEAD),
    DOCUMENTS_HEADER: (
        {"type": "string", "pattern": "^[ -~]*$"},
        "Ids of the documents that the request is limited to, comma-separated and "
        "percent-encoded; empty allows none. If body, query or token name documents too, only "
        "those named in all of them can be used.",
    ),
    TRACE_HEADER: (
        {"type": "string"},
        "The trace id, if the body has none. Default: from `traceparent`, or a new one. The "
        "response returns it.",
    ),
    IDEMPOTENCY_HEADER: (
        {"type": "string", "pattern": IDEMPOTENCY_KEY_PATTERN},
        "The `idempotency_key`, if the body has none.",
    ),
    "If-Match": (
        {"type": "string"},
        "The expected `ETag` of the document or of its access rights, or `*` for any.",
    ),
    "If-None-Match": (
        {"type": "string"},
        "The `ETag` of the client's copy of the list, several of them, or `*`. If the list has "
        "not changed, the answer is 304 without a body. To create a document, send `*`.",
    ),
}
"""The headers of requests: schema and description."""

TRACED = (TRACE_HEADER,)
CALLER_HEADERS = (
    *(TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER, DOCUMENTS_HEADER, TRACE_HEADER),
)
TOOL_HEADERS = (*CALLER_HEADERS, IDEMPOTENCY_HEADER)
CHANGE_HEADERS = (TRACE_HEADER, "If-Match")
PUT_HEADERS = (TRACE_HEADER, "If-Match", "If-None-Match")
LIST_HEADERS = (*CALLER_HEADERS, "If-None-Match")


def header_parameters(components: Components, names: Sequence[str]) -> list[JsonSchema]:
    """Return the parameters for request headers, which operations share."""
    return [_shared(components, _parameter(name, "header", _header(name))) for name in names]


def path_parameters(components: Components, model: type[BaseModel]) -> list[JsonSchema]:
    """Return the parameters of a path."""
    return [
        _parameter(name, "path", schema, required=True)
        for name, schema in property_schemas(components, model).items()
    ]


def query_parameters(components: Components, model: type[BaseModel]) -> list[JsonSchema]:
    """Return the parameters of a query, which the endpoint validates as ``model`` itself."""
    fields = {it.alias or name: it for name, it in model.model_fields.items()}
    parameters = [
        _parameter(name, "query", schema, required=fields[name].is_required())
        for name, schema in property_schemas(components, model).items()
    ]
    if not issubclass(model, CallerQuery):
        return parameters
    return [
        _shared(components, parameter)
        if parameter["name"] in CallerQuery.model_fields
        else parameter
        for parameter in parameters
    ]


def _header(name: str) -> JsonSchema:
    schema, description = HEADERS[name]
    return {**schema, "description": description}


def _parameter(name: str, place: str, schema: JsonSchema, *, required: bool = False) -> JsonSchema:
    """Describe the parameter and its schema alike: some tools show the one, some the other."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": place, "required": required, **described, "schema": schema}


def _shared(components: Components, parameter: JsonSchema) -> JsonSchema:
    words = str(parameter["name"]).replace("-", "_").split("_")
    name = "".join(word.capitalize() for word in words)
    components.setdefault("parameters", {})[name] = parameter
    return {"$ref": f"#/components/parameters/{name}"}
