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
        Field(
            description=(
                "The tenant of the call. Default: the caller's; another tenant requires the "
                "operator right `audit`."
            )
        ),
    ] = None
    user_id: Annotated[
        Identifier | None, Field(description="The user of the call. Default: the caller.")
    ] = None
    agent: Annotated[
        Identifier | None, Field(description="The agent of the call. Default: the caller's.")
    ] = None
    tool: Annotated[
        Name | None,
        Field(
            description=(
                "The tool of the call, by a name that `execute` accepts. If omitted, budgets of "
                "single tools and servers are not shown."
            )
        ),
    ] = None
    doc_id: Annotated[Identifier | None, Field(description="The document named in the call.")] = (
        None
    )


LimitUnit = Annotated[str, open_names("LimitUnit", "Unit of a budget.", ["calls", "tokens"])]


class LimitAnswer(AnswerModel, title="Limit"):
    """The remainder of a budget. If ``reset_s`` is 0, nothing has been charged to it."""

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
    Field(title="LimitListResponse", description="The budgets, or an error."),
]
