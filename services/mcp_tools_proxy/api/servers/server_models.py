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
                "Id of a server. The answer then includes `offers`: all items of the server, "
                "even those not in the active preset. Requires the operator right `audit` for "
                "all tenants."
            )
        ),
    ] = None
    cursor: Annotated[
        str | None,
        Field(description="The `next_cursor` of the previous page of `offers`."),
    ] = None


class ServerPath(BaseModel):
    """The server that a path names."""

    server_id: Annotated[_ServerId, Field(description="The server's id in mcp.json.")]


OfferedKindField = Annotated[
    str,
    open_names(
        "OfferedKind",
        "Kind of an offered item.",
        [kind.value for kind in DefinitionKind if kind is not DefinitionKind.INSTRUCTIONS],
    ),
]

_NEVER_OFFERED = (Why.NO_SERVER, Why.NOT_OFFERED)

HiddenForField = Annotated[
    str,
    open_names(
        "HiddenFor",
        "Why an offered item is hidden from all callers.",
        [why.value for why in Why if not (why.is_of_server or why in _NEVER_OFFERED)],
    ),
]


class OfferedItemAnswer(AnswerModel, title="OfferedItem"):
    """An item as defined by its server, with its name, URI or URI template there.

    An item that is `invalid` or `needs_task` has a `problem` and no `definition`.
    """

    kind: OfferedKindField
    name: str
    shown: Annotated[bool, Field(description="Whether the item is in the active preset.")]
    hidden_for: HiddenForField | None = None
    problem: str | None = None
    definition: (
        Annotated[
            Object,
            Field(title="OfferedDefinition", description="The server's definition in MCP format."),
        ]
        | None
    ) = None


class ServerOffersAnswer(AnswerModel, title="ServerOffers"):
    """A page of the tools, prompts, resources, templates and invalid items of a server."""

    server_id: str
    total: Annotated[int, Field(description="Total number of items on all pages.")]
    items: list[OfferedItemAnswer]
    next_cursor: Annotated[
        str | None, Field(description="The `cursor` of the next page, if there is one.")
    ] = None


class ServersAnswer(AnswerModel, title="ServerList"):
    """All servers in mcp.json."""

    servers: list[ServerAnswer]
    offers: ServerOffersAnswer | None = None
