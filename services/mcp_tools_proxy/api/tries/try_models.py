"""The answer to a try.

The docstrings of these classes are part of the OpenAPI document: operators read them.
"""

from typing import Annotated

from pydantic import Field

from mcp_tools_proxy.api.audit.audit_models import ExplainedBudget
from mcp_tools_proxy.api.openapi.answer_models import ErrorEnvelope, OkEnvelope

_Text = Annotated[
    str,
    Field(description="What a model reads that takes text only, as `messages` of a batch have it."),
]
_Elapsed = Annotated[float, Field(description="Milliseconds that the call took in the gateway.")]
_Budgets = Annotated[
    list[ExplainedBudget],
    Field(description="What is left after it; empty where the call was refused before."),
]


class TryOkEnvelope(OkEnvelope, title="TryOkResponse"):
    """The tool ran."""

    text: _Text
    elapsed_ms: _Elapsed
    budgets: _Budgets


class TryErrorEnvelope(ErrorEnvelope, title="TryErrorResponse"):
    """The call was refused or failed; of a refused request there is no more than the error."""

    text: _Text | None = None
    elapsed_ms: _Elapsed | None = None
    budgets: _Budgets | None = None


TryAnswer = Annotated[
    TryOkEnvelope | TryErrorEnvelope,
    Field(
        discriminator="status",
        title="TryResponse",
        description="How a call ended, and what of it only operators are shown.",
    ),
]
