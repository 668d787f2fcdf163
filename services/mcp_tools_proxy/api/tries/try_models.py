"""The answer to a try.

The docstrings of these classes are part of the OpenAPI document: operators read them.
"""

from typing import Annotated

from pydantic import Field

from mcp_tools_proxy.api.audit.audit_models import ExplainedBudget
from mcp_tools_proxy.api.openapi.answer_models import ErrorEnvelope, OkEnvelope

_Text = Annotated[
    str,
    Field(description="The text for a model that takes only text, as in `messages` of a batch."),
]
_Elapsed = Annotated[
    float, Field(description=("Duration of the call in the gateway, in milliseconds."))
]
_Budgets = Annotated[
    list[ExplainedBudget],
    Field(description="Remaining budgets after the call; empty if the call was refused earlier."),
]


class TryOkEnvelope(OkEnvelope, title="TryOkResponse"):
    """The tool was run."""

    text: _Text
    elapsed_ms: _Elapsed
    budgets: _Budgets


class TryErrorEnvelope(ErrorEnvelope, title="TryErrorResponse"):
    """The call was refused or failed. A refused request has only the error."""

    text: _Text | None = None
    elapsed_ms: _Elapsed | None = None
    budgets: _Budgets | None = None


TryAnswer = Annotated[
    TryOkEnvelope | TryErrorEnvelope,
    Field(
        discriminator="status",
        title="TryResponse",
        description="The outcome of a call, with details for operators.",
    ),
]
