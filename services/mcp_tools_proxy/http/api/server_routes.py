"""Shows downstream servers, their items and the backend's link, and reconnects a server.

Items are shown in pages, limited in items and bytes.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from hashlib import blake2b
from typing import Annotated

from fastapi import Response
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import to_json

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.backend_link import RemoteState, RemoteStatus
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.definitions import DefinitionKind
from mcp_tools_proxy.domain.errors import InvalidRequest, RouteNotFound
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.offers import EMPTY_SNAPSHOT, InvalidItem, Snapshot
from mcp_tools_proxy.domain.server import ServerState, ServerStatus, Transport
from mcp_tools_proxy.gateway.whole_service import WholeService
from mcp_tools_proxy.http.api.answer_models import AnswerModel, Object
from mcp_tools_proxy.http.api.endpoint import (
    ParsedRequest,
    require_authentication,
    single_values,
    validate,
)
from mcp_tools_proxy.http.api.openapi import SharedAnswer, Tag, refusal
from mcp_tools_proxy.http.api.operator_gate import OperatorGate
from mcp_tools_proxy.http.api.route_builder import Feature, operation, response_of
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.policy.visibility import Offers, Why
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.text import quote

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


ServerStateField = Annotated[
    str,
    open_names(
        "ServerState", "The state of a server's session.", [state.value for state in ServerState]
    ),
]


ServerTransportField = Annotated[
    str,
    open_names(
        "ServerTransport",
        "How the gateway connects to a server.",
        [transport.value for transport in Transport],
    ),
]


RemoteStateField = Annotated[
    str,
    open_names(
        "RemoteState",
        "The state of the connection to the remote backend; `off` if none is configured.",
        ["off", *(state.value for state in RemoteState)],
    ),
]


ServerCounts = Annotated[
    dict[str, int],
    Field(
        title="ServerCounts",
        description=("Numbers of tools, prompts and other items that the server offers."),
    ),
]


class SessionCountsAnswer(AnswerModel, title="SessionCounts"):
    """Sessions of a server's tenants or users: open, in use, and the maximum."""

    open: int
    busy: int
    max: int


class ServerAnswer(AnswerModel, title="Server"):
    """A downstream server. If ``stale``, its lists may be out of date.

    ``original_id`` is its name in mcp.json, if the id is derived from it.
    """

    server_id: str
    original_id: str | None = None
    state: ServerStateField
    transport: ServerTransportField | None = None
    era: str | None = None
    last_error: str | None = None
    sign_in_command: Annotated[
        str | None,
        Field(description="Command with which an operator signs in; only if that is required."),
    ] = None
    discovered_at: datetime | None = None
    stale: bool
    counts: ServerCounts
    connect_ms: float | None = None
    reconnects: int
    attempts: Annotated[
        int | None,
        Field(description="Failed attempts since the last connection, or since the start."),
    ] = None
    next_attempt_at: datetime | None = None
    sessions: SessionCountsAnswer | None = None
    problems: list[str] | None = None


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


PAGE_ITEMS = 100
PAGE_BYTES = 1_048_576
"""A page ends before the item that exceeds this, unless it is the first."""

_CURSOR = re.compile(r"([1-9][0-9]{0,8})-([0-9a-f]{16})")


PATH = "/internal/mcp/servers"

_NO_SERVER = SharedAnswer(
    "NoSuchServer", refusal("NOT_FOUND: mcp.json has no server with this id.")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedItem:
    """An item as its server defines it; an invalid one has only its name and problem."""

    kind: DefinitionKind
    name: str
    definition: JsonObject | None = None
    problem: str | None = None
    hidden_for: Why | None = None
    """Why the active preset hides it; None if it does not."""


class OfferedItems:
    """All items of a server, by kind, in its order; empty while unknown.

    The reason for hiding an item is determined when it is read.
    """

    def __init__(self, server_id: str, offers: Offers) -> None:
        snapshot = offers.snapshots.get(server_id, EMPTY_SNAPSHOT)
        self._server_id = server_id
        self._usable = tuple(_usable(snapshot))
        self._dropped = snapshot.dropped
        self._offers = offers

    def __len__(self) -> int:
        return len(self._usable) + len(self._dropped)

    def __getitem__(self, place: int) -> OfferedItem:
        """Return the item at an index from 0. Raises IndexError."""
        if place >= len(self._usable):
            return _dropped(self._dropped[place - len(self._usable)])
        kind, name, definition = self._usable[place]
        item_kind = kind.item_kind or Kind.RESOURCE
        reason = self._offers.reason(item_kind, self._server_id, name)
        hidden_for = None if reason is None else reason.why
        return OfferedItem(kind=kind, name=name, definition=definition, hidden_for=hidden_for)


def _usable(snapshot: Snapshot) -> Iterator[tuple[DefinitionKind, str, JsonObject]]:
    for kind, items in (
        (DefinitionKind.TOOL, snapshot.tools),
        (DefinitionKind.PROMPT, snapshot.prompts),
        (DefinitionKind.RESOURCE, snapshot.resources),
        (DefinitionKind.RESOURCE_TEMPLATE, snapshot.templates),
    ):
        for name, item in items.items():
            yield kind, name, item


def _dropped(item: InvalidItem) -> OfferedItem:
    return OfferedItem(
        kind=DefinitionKind(item.kind.value),
        name=item.name,
        problem=item.reason,
        hidden_for=Why.NEEDS_TASK if item.needs_task else Why.INVALID,
    )


class ServerRoutes(Feature):
    """Operations on servers, in the order of mcp.json.

    ``reconnect`` starts to reconnect a server, and returns whether it runs.
    """

    tag = Tag.STATUS

    def __init__(
        self,
        authenticator: Authenticator,
        gate: OperatorGate,
        *,
        service: WholeService,
        registry: RegistryHolder,
        reconnect: Callable[[str], Awaitable[bool]],
    ) -> None:
        self._authenticator = authenticator
        self._gate = gate
        self._service = service
        self._registry = registry
        self._reconnect = reconnect

    @operation(
        "GET", PATH, "All servers in mcp.json.", errors={404: _NO_SERVER}, query=ServersQuery
    )
    async def list_servers(self, parsed: ParsedRequest[None]) -> ServersAnswer:
        """Show the state of the downstream servers.

        Lists all servers and their state. With `offers`, operators with the right `audit` for all
        tenants also get the items that one server offers, in pages of at most 100 items and about
        1 MiB.
        """
        is_operator = await require_authentication(self._authenticator, parsed.request)
        offers = None
        if "offers" in parsed.request.query_params:  # otherwise unknown parameters are ignored
            offers = await self._offers_page(parsed)
        statuses = await self._service.servers()
        servers = [_shown(status, is_operator=is_operator) for status in statuses]
        return ServersAnswer(servers=servers, offers=offers)

    @operation(
        "POST",
        f"{PATH}/{{server_id}}/reconnect",
        "The server's current state. It is being reconnected.",
        status=202,
        model=ServerAnswer,
        errors={404: _NO_SERVER},
        path_parameters=ServerPath,
        right=OperatorRight.CONFIG,
    )
    async def reconnect_server(self, parsed: ParsedRequest[None]) -> Response:
        """Reconnect a server.

        Reconnects at once on the replica that receives the request, without waiting for the next
        retry; a stdio server's process is restarted. Calls in flight end as if the connection was
        lost. Several requests in quick succession reconnect it only once. INVALID_REQUEST: the
        server is disabled, or its entry is invalid. Requires the operator right `config`, of a
        token without a tenant.
        """
        is_operator = await require_authentication(self._authenticator, parsed.request)
        server_id = server_id_of(parsed.request.path_params["server_id"])
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        await self._status_of(server_id)
        if not await self._reconnect(server_id):
            raise InvalidRequest(
                f"server_id: server {quote(server_id)} is disabled, or its entry in mcp.json is "
                "invalid; fix the entry in mcp.json",
                details={"field": "server_id"},
            )
        status = await self._status_of(server_id)
        return response_of(_shown(status, is_operator=is_operator), parsed, 202)

    async def _offers_page(self, parsed: ParsedRequest[None]) -> ServerOffersAnswer:
        """Return a page of a server's items. Raises the errors of the gate; RouteNotFound."""
        query = validate(ServersQuery, single_values(parsed.request.query_params))
        server_id = server_id_of(query.offers or "")
        await self._gate.check(parsed, OperatorRight.AUDIT)
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        await self._status_of(server_id)
        items = OfferedItems(server_id, self._registry.current.offers)
        return page_of(server_id, items, query.cursor)

    async def _status_of(self, server_id: str) -> ServerStatus:
        for status in await self._service.servers():
            if status.server_id == server_id:
                return status
        raise RouteNotFound(
            f"unknown server {quote(server_id)}; GET /internal/mcp/servers lists the servers"
        )


def page_of(server_id: str, items: OfferedItems, cursor: str | None) -> ServerOffersAnswer:
    """Return a page of items. Raises InvalidRequest for a cursor of another list."""
    begin = 0 if cursor is None else _place_of(cursor, items)
    shown: list[OfferedItemAnswer] = []
    size = 0
    for place in range(begin, min(begin + PAGE_ITEMS, len(items))):
        item = _offered(items[place])
        size += len(to_json(item, exclude_none=True))
        if shown and size > PAGE_BYTES:
            break
        shown.append(item)
    end = begin + len(shown)
    following = f"{end}-{_digest(items[end - 1])}" if end < len(items) else None
    return ServerOffersAnswer(
        server_id=server_id, total=len(items), items=shown, next_cursor=following
    )


def _offered(item: OfferedItem) -> OfferedItemAnswer:
    return OfferedItemAnswer(
        kind=item.kind,
        name=item.name,
        shown=item.hidden_for is None,
        hidden_for=item.hidden_for,
        problem=item.problem,
        definition=item.definition,
    )


def _place_of(cursor: str, items: OfferedItems) -> int:
    found = _CURSOR.fullmatch(cursor)
    place = 0 if found is None else int(found[1])
    if found is None or place > len(items) or _digest(items[place - 1]) != found[2]:
        raise InvalidRequest(
            "cursor: invalid, or the server's list has changed; leave it out to start over",
            details={"field": "cursor"},
        )
    return place


def _digest(item: OfferedItem) -> str:
    text = f"{item.kind.value}:{item.name}"
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _shown(status: ServerStatus, *, is_operator: bool) -> ServerAnswer:
    """Return a server; paths, addresses and texts of servers are for operators only."""
    shown = ServerAnswer.model_validate(status)
    shown.connect_ms = None if status.connect_s is None else round(status.connect_s * 1000, 1)
    shown.attempts = status.attempts or None
    shown.problems = (shown.problems or None) if is_operator else None
    if not is_operator:
        shown.last_error = shown.sign_in_command = None
    return shown


class RemoteAnswer(AnswerModel, title="RemoteStatus"):
    """The connection to the remote backend. If it is ``off``, there is only ``state``."""

    state: RemoteStateField
    since: datetime | None = None
    server_identifier: str | None = None
    backend: str | None = None
    last_error: str | None = None
    attempts: int | None = None
    next_attempt_s: Annotated[float, AfterValidator(lambda it: round(it, 3))] | None = None
    links: int | None = None
    sessions: int | None = None
    open_requests: int | None = None
    waiting_bytes: int | None = None


class RemoteRoutes(Feature):
    """Shows the state of ``remote``, None if off."""

    tag = Tag.STATUS

    def __init__(
        self, authenticator: Authenticator, *, remote: Callable[[], Awaitable[RemoteStatus | None]]
    ) -> None:
        self._authenticator = authenticator
        self._remote = remote

    @operation("GET", "/internal/mcp/remote", "The state of the connection.")
    async def get_remote(self, parsed: ParsedRequest[None]) -> RemoteAnswer:
        """Show the state of the connection to the remote backend."""
        await require_authentication(self._authenticator, parsed.request)
        status = await self._remote()
        return RemoteAnswer(state="off") if status is None else RemoteAnswer.model_validate(status)
