"""Envelopes of answers, and the base class of answer models.

Titles become class names in generated clients, so they are part of the public API. An optional
field is omitted if it does not apply; it is never null. Names that a later version can add to are
``open_names``.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import errors_by_code
from mcp_tools_proxy.http.api.models import TraceId
from mcp_tools_proxy.http.api.schemas import open_names

Object = dict[str, object]

ErrorCodeField = Annotated[
    str,
    open_names(
        "ErrorCode",
        "A stable error code.",
        [*errors_by_code(), CapacityExceeded.code],
    ),
]


CallResult = Annotated[
    Object,
    Field(title="CallResult", description="Result of the tool, prompt or resource."),
]

ErrorDetails = Annotated[
    Object,
    Field(
        title="ErrorDetails",
        description=(
            "Details for programs. The fields depend on the code: `field` is the place in the "
            "request, `candidates` are possible names."
        ),
    ),
]


class AnswerModel(BaseModel):
    """Base of answers: built from values of the domain, with a schema built on first use."""

    model_config = ConfigDict(defer_build=True, from_attributes=True, populate_by_name=True)


class ErrorBody(AnswerModel):
    """An error: ``code`` is for programs, ``message`` for the model or a person.

    If ``retryable`` is true, the same call may succeed later, in ``retry_after_s`` seconds if
    known.
    """

    code: ErrorCodeField
    message: str
    retryable: bool | None = None
    retry_after_s: float | None = None
    details: ErrorDetails | None = None


Replayed = Annotated[
    Literal[True] | None,
    Field(
        description=(
            "The response repeats the outcome of an earlier call with the same `idempotency_key`."
        )
    ),
]


class BudgetBody(AnswerModel, title="Budget"):
    """The budget with the smallest remaining share after this call.

    ``reset_s`` is the time until the full budget is available again, in seconds; 0 if nothing
    has been charged to it.
    """

    name: str
    remaining_calls: int | None = None
    remaining_tokens: int | None = None
    reset_s: int


class OkEnvelope(AnswerModel, title="OkResponse"):
    """The tool was run, or the prompt or resource was read."""

    status: Literal["ok"]
    result: CallResult
    trace_id: TraceId
    replayed: Replayed = None
    budget: BudgetBody | None = None


class ErrorEnvelope(AnswerModel, title="ErrorResponse"):
    """The call was refused or failed."""

    status: Literal["error"]
    error: ErrorBody
    trace_id: TraceId
    replayed: Replayed = None
    budget: BudgetBody | None = None


def or_error(model: type[AnswerModel], title: str, description: str) -> object:
    """Return the type of an answer that can be an error for the caller to handle."""
    return Annotated[model | ErrorEnvelope, Field(title=title, description=description)]


CallAnswer = Annotated[
    OkEnvelope | ErrorEnvelope,
    Field(
        discriminator="status",
        title="CallResponse",
        description="The outcome of a call; `status` tells success from error.",
    ),
]
