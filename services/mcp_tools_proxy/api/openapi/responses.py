"""The responses of operations: what each answers, and the errors and headers that they share."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_tools_proxy.api.openapi.answer_models import (
    CallAnswer,
    ErrorEnvelope,
)
from mcp_tools_proxy.api.openapi.shared_schemas import JsonSchema, add_schema
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
"""The responses that operations share, by status."""

Responses = Mapping[int, Answer | SharedAnswer]
"""The responses of one operation, by status."""


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
