"""What OpenAPI is told beyond FastAPI's own reading of the handlers."""

from collections.abc import Mapping

from pydantic import BaseModel

from mcp_tools_proxy.api.models import ErrorEnvelope

Responses = dict[int | str, dict[str, object]]

ERROR_RESPONSES: Responses = {
    413: {"model": ErrorEnvelope, "description": "PAYLOAD_TOO_LARGE"},
    422: {"model": ErrorEnvelope, "description": "INVALID_REQUEST: names the field"},
    500: {"model": ErrorEnvelope, "description": "INTERNAL_ERROR"},
    503: {"model": ErrorEnvelope, "description": "RETRIEVAL_NOT_CONFIGURED, SHUTTING_DOWN"},
}


def request_body(
    model: type[BaseModel], examples: Mapping[str, Mapping[str, object]]
) -> dict[str, object]:
    """Describe a JSON body that the handler reads itself; ``examples`` by name."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    inlined = _inline(schema, definitions)
    content = {
        "schema": inlined,
        "examples": {name: {"value": value} for name, value in examples.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def _inline(schema: object, definitions: dict[str, object]) -> object:
    """Put definitions where they are referred to; our models do not refer to themselves."""
    if isinstance(schema, list):
        return [_inline(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _inline(definitions[reference.rpartition("/")[2]], definitions)
    return {key: _inline(value, definitions) for key, value in schema.items()}


def query_parameters(
    model: type[BaseModel], *others: Mapping[str, object]
) -> dict[str, list[Mapping[str, object]]]:
    """Describe a query that the handler reads itself, and ``others``, parameters as OpenAPI's."""
    schema = model.model_json_schema()
    definitions = schema.get("$defs", {})
    parameters: list[Mapping[str, object]] = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": _without_null(_inline(part, definitions)),
        }
        for name, part in schema["properties"].items()
    ]
    return {"parameters": [*parameters, *others]}


def _without_null(schema: object) -> object:
    """Say "T or null" as T: a query has no null."""
    match schema:
        case {"anyOf": [dict() as given, {"type": "null"}], **others}:
            return {**given, **others}
    return schema
