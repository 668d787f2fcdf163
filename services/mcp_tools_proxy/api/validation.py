"""From a raw request to checked models: the one place that answers INVALID_REQUEST."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.wire.messages import place_of, problem_of

ModelT = TypeVar("ModelT", bound=BaseModel)


def validate(model: type[ModelT], body: object) -> ModelT:
    """Check ``body`` against ``model``. Raises InvalidRequest naming the field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise invalid_request(first) from None


def invalid_request(error: ErrorDetails | Mapping[str, object]) -> InvalidRequest:
    """Make the answer to one validation error: it names the field."""
    field = place_of(error, whole="body")
    return InvalidRequest(f"{field}: {problem_of(error)}", details={"field": field})
