"""Describes operations in the OpenAPI document: parameters, bodies, responses, and tags.

Common parts, such as errors and headers, are shared components.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from fastapi import Security
from fastapi.params import Depends
from fastapi.security import HTTPBearer
from pydantic import BaseModel

from mcp_tools_proxy.auth.caller_resolver import (
    AGENT_HEADER,
    DOCUMENTS_HEADER,
    ROLES_HEADER,
    TENANT_HEADER,
    USER_HEADER,
)
from mcp_tools_proxy.http.api.answer_models import CallAnswer, ErrorEnvelope
from mcp_tools_proxy.http.api.models import CallerQuery
from mcp_tools_proxy.http.api.schemas import JsonSchema, add_schema, property_schemas
from mcp_tools_proxy.http.fast_routes import Components
from mcp_tools_proxy.http.request_headers import TRACE_HEADER
from mcp_tools_proxy.http.responses import POLICY_HEADER, RATE_LIMIT_HEADER
from mcp_tools_proxy.wire.identifiers import IDEMPOTENCY_KEY_PATTERN, IDENTIFIER_CHARS
from mcp_tools_proxy.wire.run_fields import RUN_HEADER

RETRY_AFTER = "Retry-After"
ETAG = "ETag"
WWW_AUTHENTICATE = "WWW-Authenticate"

ANSWER_HEADERS = {
    TRACE_HEADER: (
        "TraceId",
        "string",
        "The trace id of the request, or a new one; the same as in the body.",
    ),
    RETRY_AFTER: ("RetryAfter", "integer", "Seconds after which the request may succeed."),
    ETAG: (
        "ETag",
        "string",
        "Changes when the content changes. Send it as `If-None-Match`, or as `If-Match` to "
        "change a document.",
    ),
    RATE_LIMIT_HEADER: (
        "RateLimit",
        "string",
        "The remainder of the budget in `budget`: `r` left for the next `t` seconds "
        "(draft-ietf-httpapi-ratelimit-headers-11).",
    ),
    POLICY_HEADER: (
        "RateLimitPolicy",
        "string",
        "The limits of that budget: `q` per window of `w` seconds, in calls unless `qu` "
        "names another unit.",
    ),
    "Location": ("Location", "string", "The address of the status."),
    "Preference-Applied": ("PreferenceApplied", "string", "`respond-async`."),
    WWW_AUTHENTICATE: (
        "WwwAuthenticate",
        "string",
        '`Bearer`, with `error="invalid_token"` if the request\'s token was refused.',
    ),
}
"""The headers of responses: name of the component, type and description."""


class Answer(NamedTuple):
    """A response of an operation; ``model`` is None for text or without a body."""

    description: str
    model: object = None
    headers: Sequence[str] = (TRACE_HEADER,)
    text: str | None = None
    """The media type of a text body."""


class SharedAnswer(NamedTuple):
    """A response of several operations, with the name of its component."""

    name: str
    answer: Answer


def refusal(description: str, *headers: str) -> Answer:
    """Return the response to a refused request."""
    return Answer(description, ErrorEnvelope, (TRACE_HEADER, *headers))


SHARED_ANSWERS: Mapping[int, SharedAnswer] = {
    304: SharedAnswer(
        "NotModified",
        Answer("The list has not changed.", None, (TRACE_HEADER, ETAG)),
    ),
    401: SharedAnswer(
        "Unauthenticated",
        refusal(
            "UNAUTHENTICATED: the bearer token is missing or invalid.",
            WWW_AUTHENTICATE,
            RETRY_AFTER,
        ),
    ),
    403: SharedAnswer("Forbidden", refusal("FORBIDDEN: the caller has no permission for this.")),
    404: SharedAnswer("PresetNotFound", refusal("PRESET_NOT_FOUND: no preset has this id.")),
    409: SharedAnswer(
        "PresetNotChanged",
        refusal(
            "PRESET_PINNED: the preset is fixed by a setting. CONFIG_READ_ONLY: the choice "
            "cannot be saved in mcp.json."
        ),
    ),
    413: SharedAnswer("PayloadTooLarge", refusal("PAYLOAD_TOO_LARGE: the body is too large.")),
    422: SharedAnswer(
        "InvalidRequest",
        refusal(
            "INVALID_REQUEST: the request is malformed; `details.field` has the path of the "
            "invalid value."
        ),
    ),
    500: SharedAnswer(
        "InternalError",
        refusal("INTERNAL_ERROR: a defect; the gateway's log has the trace id."),
    ),
    503: SharedAnswer(
        "Unavailable",
        refusal(
            "SHUTTING_DOWN: the gateway is stopping; another replica can take the call. "
            "RETRIEVAL_NOT_CONFIGURED: the tool needs a Retrieval Service, and none is "
            "configured."
        ),
    ),
}
"""The shared responses, by status."""

Responses = Mapping[int, Answer | SharedAnswer]


ERRORS_ARE_OK = "Errors that the caller can handle are also 200, with status `error`."


def errors_of(*statuses: int) -> Responses:
    """Return the shared responses of these statuses."""
    return {status: SHARED_ANSWERS[status] for status in statuses}


def call_responses(model: object) -> Responses:
    """Return the responses of a route that makes one call."""
    ended = Answer(
        "The outcome. Errors that the model or its runtime can handle are also 200, with "
        "status `error`.",
        model,
        (TRACE_HEADER, RETRY_AFTER, RATE_LIMIT_HEADER, POLICY_HEADER),
    )
    return {200: ended, **errors_of(401, 403, 413, 422, 500, 503)}


CALL_RESPONSES = call_responses(CallAnswer)


def describe_responses(components: Components, responses: Responses) -> dict[str, object]:
    """Describe the responses of an operation; add shared parts to ``components``."""
    return {
        str(status): _shared_answer(components, response)
        if isinstance(response, SharedAnswer)
        else _described_answer(components, response)
        for status, response in responses.items()
    }


def _shared_answer(components: Components, shared: SharedAnswer) -> JsonSchema:
    components.setdefault("responses", {})[shared.name] = _described_answer(
        components, shared.answer
    )
    return {"$ref": f"#/components/responses/{shared.name}"}


def _described_answer(components: Components, answer: Answer) -> JsonSchema:
    described: JsonSchema = {"description": answer.description}
    if answer.headers:
        described["headers"] = {name: _answer_header(components, name) for name in answer.headers}
    if answer.text is not None:
        described["content"] = {answer.text: {"schema": {"type": "string"}}}
    elif answer.model is not None:
        schema = add_schema(components, answer.model, "serialization")
        described["content"] = {"application/json": {"schema": schema}}
    return described


def _answer_header(components: Components, header: str) -> JsonSchema:
    name, kind, description = ANSWER_HEADERS[header]
    described = {"description": description, "schema": {"type": kind}}
    components.setdefault("headers", {})[name] = described
    return {"$ref": f"#/components/headers/{name}"}


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
    RUN_HEADER: (_IDENTIFIER, "The id of the run, if the body has no `run`."),
    "If-Match": (
        {"type": "string"},
        "The expected `ETag` of the document or of its access rights, or `*` for any.",
    ),
    "If-None-Match": (
        {"type": "string"},
        "One or more `ETag` values of the client's copies of the list, or `*`. If the list has "
        "not changed, the answer is 304 without a body. To create a document, send `*`.",
    ),
    "Prefer": (
        {"type": "string"},
        "`respond-async`: answer with 202 before the document is imported and stored.",
    ),
}
"""The headers of requests: schema and description."""

TRACED = (TRACE_HEADER,)
CALLER_HEADERS = (
    *(TENANT_HEADER, USER_HEADER, ROLES_HEADER, AGENT_HEADER, DOCUMENTS_HEADER, TRACE_HEADER),
)
CALL_HEADERS = (*CALLER_HEADERS, RUN_HEADER)
TOOL_HEADERS = (*CALL_HEADERS, IDEMPOTENCY_HEADER)
CHANGE_HEADERS = (TRACE_HEADER, "If-Match")
PUT_HEADERS = (TRACE_HEADER, "If-Match", "If-None-Match", "Prefer")
LIST_HEADERS = (*CALLER_HEADERS, "If-None-Match")


def header_parameters(components: Components, names: Sequence[str]) -> list[JsonSchema]:
    """Return the shared parameters for request headers."""
    return [_shared(components, _parameter(name, "header", _header(name))) for name in names]


def path_parameters(components: Components, model: type[BaseModel]) -> list[JsonSchema]:
    """Return the parameters of a path."""
    return [
        _parameter(name, "path", schema, required=True)
        for name, schema in property_schemas(components, model).items()
    ]


def query_parameters(components: Components, model: type[BaseModel]) -> list[JsonSchema]:
    """Return the parameters of a query, which the endpoint validates as ``model``."""
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
    """Tools show the description of the parameter or of its schema."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"name": name, "in": place, "required": required, **described, "schema": schema}


def _shared(components: Components, parameter: JsonSchema) -> JsonSchema:
    words = str(parameter["name"]).replace("-", "_").split("_")
    name = "".join(word.capitalize() for word in words)
    components.setdefault("parameters", {})[name] = parameter
    return {"$ref": f"#/components/parameters/{name}"}


Examples = Mapping[str, Mapping[str, object]]
"""Example bodies by their displayed name; each works (tests/api/test_examples.py)."""


class Tag(StrEnum):
    """The groups of operations; generated clients have a module for each."""

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
"""The tags of the OpenAPI document, in their order there."""


class Operation(NamedTuple):
    """An operation of the OpenAPI document."""

    operation_id: str
    tag: Tag
    summary: str
    responses: Responses
    description: str | None = None
    headers: Sequence[str] = ()
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    examples: Mapping[str, Mapping[str, object]] = {}
    files: Mapping[str, str] = {}
    """Description of a file body, by media type."""
    path: type[BaseModel] | None = None
    """The parameters of the path."""

    def describe(self, components: Components) -> Mapping[str, object]:
        """Describe parameters, body and responses; add shared parts to ``components``."""
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
    auto_error=False,  # the endpoints check the token
)


def security(*, needed: bool) -> Sequence[Depends]:
    """Return the dependencies that describe a route's need of a bearer token."""
    return [Security(_BEARER)] if needed else []
