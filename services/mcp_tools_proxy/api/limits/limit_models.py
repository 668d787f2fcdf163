"""The query and the answer of the route that shows what is left of budgets.

The docstrings of these classes are part of the OpenAPI document.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_tools_proxy.api.models import Name
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ErrorEnvelope
from mcp_tools_proxy.api.openapi.shared_schemas import open_names
from mcp_tools_proxy.wire.identifiers import Identifier


class LimitsQuery(BaseModel):
    """Query of GET /internal/mcp/limits: the call of which the budgets are shown."""

    tenant_id: Annotated[
        Identifier | None,
        Field(description="Another tenant than the caller's needs the operator right `audit`."),
    ] = None
    user_id: Annotated[
        Identifier | None, Field(description="The user of the call; by default the caller.")
    ] = None
    agent: Annotated[
        Identifier | None, Field(description="The agent of the call; by default the caller's.")
    ] = None
    tool: Annotated[
        Name | None,
        Field(
            description=(
                "The tool of the call, by a name that `execute` takes. Without it budgets of "
                "single tools and servers are not shown."
            )
        ),
    ] = None
    doc_id: Annotated[Identifier | None, Field(description="The document that the call names.")] = (
        None
    )


LimitUnit = Annotated[
    str, open_names("LimitUnit", "What a budget is measured in.", ["calls", "tokens"])
]


class LimitAnswer(AnswerModel, title="Limit"):
    """What is left of one budget. Nothing is charged to it while ``reset_s`` is 0."""

    name: str
    unit: LimitUnit
    limit: int
    remaining: int
    reset_s: int
    window_s: int


class LimitsAnswer(AnswerModel, title="LimitList"):
    """The budgets that a call would be charged to."""

    limits: list[LimitAnswer]


LimitsOrError = Annotated[
    LimitsAnswer | ErrorEnvelope,
    Field(title="LimitListResponse", description="The budgets, or why they are not shown."),
]
