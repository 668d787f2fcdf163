"""Models of the requests and responses of servers.

Their docstrings are part of the OpenAPI document: callers read them.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from mcp_tools_proxy.api.openapi.answer_fields import Object
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ServerAnswer
from mcp_tools_proxy.api.openapi.shared_schemas import open_names
from mcp_tools_proxy.domain.offers.definitions import DefinitionKind
from mcp_tools_proxy.policy.item_reasons import Why

_ServerId = Annotated[str, Field(min_length=1, max_length=256)]


class ServersQuery(BaseModel):
    """Query of GET /internal/mcp/servers."""

    offers: Annotated[
        _ServerId | None,
        Field(
            description=(
                "The id of a server: the answer has `offers` as well, all that it offers, whatever "
                "the active preset shows. For operators with the right `audit` for all tenants."
            )
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(description="Of `offers`, the `next_cursor` of the page before."),
    ] = None


class ServerPath(BaseModel):
    """The server that a path names."""

    server_id: Annotated[_ServerId, Field(description="The server's id in mcp.json.")]


OfferedKindField = Annotated[
    str,
    open_names(
        "OfferedKind",
        "What a server offers.",
        [kind.value for kind in DefinitionKind if kind is not DefinitionKind.INSTRUCTIONS],
    ),
]

_NEVER_OFFERED = (Why.NO_SERVER, Why.NOT_OFFERED)

HiddenForField = Annotated[
    str,
    open_names(
        "HiddenFor",
        "Why no caller sees an item that a server offers.",
        [why.value for why in Why if not (why.is_of_server or why in _NEVER_OFFERED)],
    ),
]


class OfferedItemAnswer(AnswerModel, title="OfferedItem"):
    """An item as its server defines it, by its name, URI or URI template there.

    An item that is `invalid` or `needs_task` has `problem` and no `definition`.
    """

    kind: OfferedKindField
    name: str
    shown: Annotated[bool, Field(description="Whether the active preset shows it.")]
    hidden_for: HiddenForField | None = None
    problem: str | None = None
    definition: (
        Annotated[
            Object,
            Field(
                title="OfferedDefinition", description="What the server sent of it, as MCP has it."
            ),
        ]
        | None
    ) = None


class ServerOffersAnswer(AnswerModel, title="ServerOffers"):
    """A page of all that one server offers: tools, prompts, resources, templates, invalid items."""

    server_id: str
    total: Annotated[int, Field(description="How many items there are on all pages.")]
    items: list[OfferedItemAnswer]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page; only where there is one.")
    ] = None


class ServersAnswer(AnswerModel, title="ServerList"):
    """Every server that mcp.json names."""

    servers: list[ServerAnswer]
    offers: ServerOffersAnswer | None = None
