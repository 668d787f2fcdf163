"""The responses of operations: what each answers, and the errors and headers that they share."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_tools_proxy.api.openapi.answer_models import (
    ActivePresetAnswer,
    BatchOrError,
    CallAnswer,
    ErrorEnvelope,
)
from mcp_tools_proxy.api.openapi.shared_schemas import JsonSchema, add_schema
from mcp_tools_proxy.web.event_streams import EVENT_STREAM
from mcp_tools_proxy.web.fast_routes import Components
from mcp_tools_proxy.web.rate_limit_headers import POLICY_HEADER, RATE_LIMIT_HEADER
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER

RETRY_AFTER = "Retry-After"
ETAG = "ETag"
WWW_AUTHENTICATE = "WWW-Authenticate"

HEADERS = {
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
    WWW_AUTHENTICATE: (
        "WwwAuthenticate",
        "string",
        '`Bearer`, with `error="invalid_token"` if the request\'s token was refused.',
    ),
}
"""The headers of responses: name of the component, type and description."""


class Answer(NamedTuple):
    """A response of one operation; ``model`` is None where there is no body, or text."""

    description: str
    model: object = None
    headers: Sequence[str] = (TRACE_HEADER,)
    text: str | None = None
    """The media type of a body that is text."""


class SharedAnswer(NamedTuple):
    """A response that several operations have, by the name of its component."""

    name: str
    answer: Answer


def _error(description: str, *headers: str) -> Answer:
    return Answer(description, ErrorEnvelope, (TRACE_HEADER, *headers))


SHARED_ANSWERS: Mapping[int, SharedAnswer] = {
    304: SharedAnswer(
        "NotModified",
        Answer("The list has not changed.", None, (TRACE_HEADER, ETAG)),
    ),
    401: SharedAnswer(
        "Unauthenticated",
        _error(
            "UNAUTHENTICATED: the bearer token is missing or invalid.",
            WWW_AUTHENTICATE,
            RETRY_AFTER,
        ),
    ),
    403: SharedAnswer("Forbidden", _error("FORBIDDEN: the caller has no permission for this.")),
    404: SharedAnswer("PresetNotFound", _error("PRESET_NOT_FOUND: no preset has this id.")),
    409: SharedAnswer(
        "PresetNotChanged",
        _error(
            "PRESET_PINNED: the preset is fixed by a setting. CONFIG_READ_ONLY: the choice "
            "cannot be saved in mcp.json."
        ),
    ),
    413: SharedAnswer("PayloadTooLarge", _error("PAYLOAD_TOO_LARGE: the body is too large.")),
    422: SharedAnswer(
        "InvalidRequest",
        _error(
            "INVALID_REQUEST: the request is malformed; `details.field` has the path of the "
            "invalid value."
        ),
    ),
    500: SharedAnswer(
        "InternalError", _error("INTERNAL_ERROR: a defect; the gateway's log has the trace id.")
    ),
    503: SharedAnswer(
        "Unavailable",
        _error(
            "SHUTTING_DOWN: the gateway is stopping; another replica can take the call. "
            "RETRIEVAL_NOT_CONFIGURED: the tool needs a Retrieval Service, and none is "
            "configured."
        ),
    ),
}
"""The responses that operations share, by status."""

INVALID_NAME_STYLE = _error(
    "INVALID_REQUEST: `name_style` is not one of the three styles, or is repeated."
)
"""The response 400 of the one route that has a style of names."""

Responses = Mapping[int, Answer | SharedAnswer]
"""The responses of one operation, by status."""


def _errors(*statuses: int) -> Responses:
    return {status: SHARED_ANSWERS[status] for status in statuses}


def call_responses(model: object) -> Responses:
    """Return the responses of a route that makes one call."""
    ended = Answer(
        "The outcome. Errors that the model or its runtime can handle are also 200, with "
        "status `error`.",
        model,
        (TRACE_HEADER, RETRY_AFTER, RATE_LIMIT_HEADER, POLICY_HEADER),
    )
    return {200: ended, **_errors(401, 403, 413, 422, 500, 503)}


CALL_RESPONSES = call_responses(CallAnswer)

BATCH_RESPONSES: Responses = {
    200: Answer(
        "The outcome of each call. If an agent is required but none is named, each call fails "
        "with AGENT_REQUIRED. If the token is for several agents and none is named, the whole "
        "batch fails with AGENT_REQUIRED: also 200, with status `error`.",
        BatchOrError,
    ),
    **_errors(401, 403, 413, 422, 500, 503),
}

SWITCH_RESPONSES: Responses = {
    200: Answer("The preset is now active.", ActivePresetAnswer),
    **_errors(401, 403, 404, 409, 413, 422, 500, 503),
}


_DOCUMENT_ERRORS: Mapping[int, SharedAnswer] = {
    404: SharedAnswer("NoSuchDocument", _error("NOT_FOUND: the tenant has no such document.")),
    409: SharedAnswer(
        "DocumentNotChanged",
        _error(
            "DOCUMENTS_READ_ONLY: the folder or database is not writable. IMPORT_BUSY: another "
            "import of this tenant is running or waiting, no slot was free for 90 s, the import "
            "took long while other tenants waited, or there are already 32 uploads in all or 24 "
            "of the tenant; retry after Retry-After. QUOTA_EXCEEDED: the tenant's quota would be "
            "exceeded; `details` has `quota`, `unit`, `limit` and `used`.",
            RETRY_AFTER,
        ),
    ),
    412: SharedAnswer(
        "VersionMismatch",
        _error(
            "VERSION_MISMATCH: the document does not exist, or its version is `details.version`."
        ),
    ),
    415: SharedAnswer(
        "UnsupportedFormat", _error("UNSUPPORTED_FORMAT: the body's type is not supported.")
    ),
    428: SharedAnswer(
        "VersionRequired",
        _error("VERSION_REQUIRED: send `If-Match` or `If-None-Match: *`."),
    ),
    503: SharedAnswer(
        "DocumentsUnavailable",
        _error("DOCUMENTS_UNAVAILABLE: documents cannot be read or written at the moment."),
    ),
}


def document_responses(model: object, description: str, *statuses: int) -> Responses:
    """Return the responses of an operator's route of documents."""
    shared = {**SHARED_ANSWERS, **_DOCUMENT_ERRORS}
    answer = Answer(description, model, (TRACE_HEADER, ETAG))
    return {200: answer, **{it: shared[it] for it in (401, 403, *statuses, 422, 500, 503)}}


def audit_responses(model: object, description: str) -> Responses:
    """Return the responses of an operator's route of the audit."""
    unavailable = SharedAnswer(
        "AuditUnavailable",
        _error("AUDIT_UNAVAILABLE: the audit file cannot be read at the moment."),
    )
    return {200: Answer(description, model), **_errors(401, 403, 422, 500), 503: unavailable}


STREAM_RESPONSES: Responses = {
    200: Answer("The event stream.", text=EVENT_STREAM),
    **_errors(401, 403, 422, 500),
    503: SharedAnswer(
        "NoStream",
        _error(
            "NO_ROOM: the maximum number of streams is open. SHUTTING_DOWN: the gateway is "
            "stopping; other replicas have their own records."
        ),
    ),
}


def explain_responses(model: object, description: str) -> Responses:
    """Return the responses of the route that explains calls."""
    return {200: Answer(description, model), **_errors(401, 403, 413, 422, 500)}


def budget_responses(model: object, description: str) -> Responses:
    """Return the responses of a route that shows a caller's budgets."""
    shown = f"{description} Errors that the caller can handle are also 200, with status `error`."
    return {200: Answer(shown, model), **_errors(401, 403, 422, 500)}


def login_responses(model: object, description: str) -> Responses:
    """Return the responses of an operation on logins."""
    shown = f"{description} If logins cannot be read, the answer is also 200, with status `error`."
    return {200: Answer(shown, model), **_errors(401, 403, 422, 500)}


def show_responses(model: object, description: str) -> Responses:
    """Return the responses of a route that shows ``model``, the same to all callers."""
    return {200: Answer(description, model), **_errors(401, 403, 422, 500)}


def list_responses(model: object) -> Responses:
    """Return the responses of a route that lists what a caller may use."""
    description = (
        "The list. Errors that the caller can handle, such as AGENT_REQUIRED, are also 200, with "
        "status `error`."
    )
    listed = Answer(description, model, (TRACE_HEADER, ETAG))
    return {200: listed, **_errors(304, 401, 403, 422, 500)}


def called_list_responses(model: object) -> Responses:
    """Return the responses of a route that lists by a call of a tool, which is charged."""
    listed = Answer(
        "The list. Errors that the caller can handle are also 200, with status `error`.",
        model,
        (TRACE_HEADER, RETRY_AFTER, RATE_LIMIT_HEADER, POLICY_HEADER),
    )
    return {200: listed, **_errors(401, 403, 422, 500, 503)}


def describe_responses(components: Components, responses: Responses) -> dict[str, object]:
    """Describe the responses of an operation; add what they share to ``components``."""
    return {
        str(status): _shared(components, response)
        if isinstance(response, SharedAnswer)
        else _response(components, response)
        for status, response in responses.items()
    }


def _shared(components: Components, shared: SharedAnswer) -> JsonSchema:
    components.setdefault("responses", {})[shared.name] = _response(components, shared.answer)
    return {"$ref": f"#/components/responses/{shared.name}"}


def _response(components: Components, answer: Answer) -> JsonSchema:
    described: JsonSchema = {"description": answer.description}
    if answer.headers:
        described["headers"] = {name: _header(components, name) for name in answer.headers}
    if answer.text is not None:
        described["content"] = {answer.text: {"schema": {"type": "string"}}}
    elif answer.model is not None:
        schema = add_schema(components, answer.model, "serialization")
        described["content"] = {"application/json": {"schema": schema}}
    return described


def _header(components: Components, header: str) -> JsonSchema:
    name, kind, description = HEADERS[header]
    described = {"description": description, "schema": {"type": kind}}
    components.setdefault("headers", {})[name] = described
    return {"$ref": f"#/components/headers/{name}"}
