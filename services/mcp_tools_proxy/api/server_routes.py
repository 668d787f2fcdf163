"""Shows the downstream servers and what one offers, and reconnects one (contract §1).

What a server offers is shown in pages, bounded in items and bytes. The docstrings of models are
part of the OpenAPI document: callers read them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

from fastapi import Response
from pydantic import BaseModel, Field
from pydantic_core import to_json

from mcp_tools_proxy.api.callers import require_authentication
from mcp_tools_proxy.api.endpoint import ParsedRequest, single_values, validate
from mcp_tools_proxy.api.openapi.answer_fields import Object
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ErrorEnvelope, ServerAnswer
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import Answer, SharedAnswer, show_responses
from mcp_tools_proxy.api.openapi.shared_schemas import open_names
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.errors import InvalidRequest, RouteNotFound
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.domain.offers.definitions import DefinitionKind
from mcp_tools_proxy.domain.offers.snapshot import EMPTY_SNAPSHOT, InvalidItem, Snapshot
from mcp_tools_proxy.domain.server import ServerStatus, SessionCounts
from mcp_tools_proxy.policy.visibility import Offers, Why
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import server_id_of
from mcp_tools_proxy.wire.text import quote


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedItem:
    """An item as its server defines it; of an invalid one there is only its name and problem."""

    kind: DefinitionKind
    name: str
    definition: JsonObject | None = None
    problem: str | None = None
    hidden_for: Why | None = None
    """Why the active preset does not show it, None if it does."""


class OfferedItems:
    """All that one server offers, by kind, in its order; empty while that is unknown.

    Why an item is hidden is looked up when it is read.
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
        """Return the item at a place from 0. Raises IndexError."""
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


PAGE_ITEMS = 100
PAGE_BYTES = 1_048_576
"""A page ends before the item that would make it longer, unless that is its first."""

_CURSOR = re.compile(r"([1-9][0-9]{0,8})-([0-9a-f]{16})")


def page_of(items: OfferedItems, cursor: str | None) -> Mapping[str, object]:
    """Return a page of items as JSON. Raises InvalidRequest for a cursor of another offer."""
    begin = 0 if cursor is None else _place_of(cursor, items)
    shown: list[object] = []
    size = 0
    for place in range(begin, min(begin + PAGE_ITEMS, len(items))):
        facts = _facts(items[place])
        size += len(to_json(facts))
        if shown and size > PAGE_BYTES:
            break
        shown.append(facts)
    end = begin + len(shown)
    page: dict[str, object] = {"total": len(items), "items": shown}
    if end < len(items):
        page["next_cursor"] = f"{end}-{_digest(items[end - 1])}"
    return page


def _facts(item: OfferedItem) -> Mapping[str, object]:
    hidden_for = None if item.hidden_for is None else item.hidden_for.value
    return without_none(
        {
            "kind": item.kind.value,
            "name": item.name,
            "shown": hidden_for is None,
            "hidden_for": hidden_for,
            "problem": item.problem,
            "definition": item.definition,
        }
    )


def _place_of(cursor: str, items: OfferedItems) -> int:
    """Return where the next page begins: behind the item that the cursor was made of."""
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


FOR_OPERATORS = frozenset({"last_error", "problem", "problems", "warnings"})
"""Keys of a server that only operators see."""


class ServerHandlers:
    """Handlers of ``servers``, which are in the order of mcp.json.

    ``reconnect`` begins to reconnect a server, and returns whether it runs.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        gate: OperatorGate,
        *,
        servers: Callable[[], Iterable[ServerStatus]],
        registry: RegistryHolder,
        reconnect: Callable[[str], bool],
    ) -> None:
        self._authenticator = authenticator
        self._gate = gate
        self._servers = servers
        self._registry = registry
        self._reconnect = reconnect

    async def list_servers(self, parsed: ParsedRequest[None]) -> Response:
        """Show each server, with its errors for operators only."""
        is_operator = await require_authentication(self._authenticator, parsed.request)
        content: dict[str, object] = {}
        if "offers" in parsed.request.query_params:
            content["offers"] = await self._offers_page(parsed)
        servers = [_shown(status, is_operator=is_operator) for status in self._servers()]
        content = {"servers": servers, **content}
        return json_response(content, headers={TRACE_HEADER: parsed.trace_id})

    async def reconnect(self, parsed: ParsedRequest[None]) -> Response:
        """Close and reopen the connection to the server that the path names."""
        await self._gate.check(parsed, OperatorRight.CONFIG)
        is_operator = await require_authentication(self._authenticator, parsed.request)
        server_id = server_id_of(parsed.request.path_params["server_id"])
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        self._status_of(server_id)
        if not self._reconnect(server_id):
            raise InvalidRequest(
                f"server_id: server {quote(server_id)} is disabled, or its entry in mcp.json is "
                "invalid; fix the entry in mcp.json",
                details={"field": "server_id"},
            )
        return json_response(
            _shown(self._status_of(server_id), is_operator=is_operator),
            status=202,
            headers={TRACE_HEADER: parsed.trace_id},
        )

    async def _offers_page(self, parsed: ParsedRequest[None]) -> Mapping[str, object]:
        """Return a page of what a server offers. Raises as the gate; RouteNotFound."""
        query = validate(ServersQuery, single_values(parsed.request.query_params))
        server_id = server_id_of(query.offers or "")
        await self._gate.check(parsed, OperatorRight.AUDIT)
        add_to_operation(parsed.request.scope, server_id=cut(server_id))
        self._status_of(server_id)
        items = OfferedItems(server_id, self._registry.current.offers)
        return {"server_id": server_id, **page_of(items, query.cursor)}

    def _status_of(self, server_id: str) -> ServerStatus:
        for status in self._servers():
            if status.server_id == server_id:
                return status
        raise RouteNotFound(
            f"unknown server {quote(server_id)}; GET /internal/mcp/servers lists the servers"
        )


def _shown(status: ServerStatus, *, is_operator: bool) -> Mapping[str, object]:
    line = _server(status)
    return line if is_operator else _without_details(line)


def _without_details(line: Mapping[str, object]) -> dict[str, object]:
    """Remove the fields that may hold paths, addresses and texts of servers."""
    return {key: value for key, value in line.items() if key not in FOR_OPERATORS}


def _server(status: ServerStatus) -> dict[str, object]:
    connect_ms = None if status.connect_s is None else round(status.connect_s * 1000, 1)
    line = {
        "server_id": status.server_id,
        "original_id": status.original_id,
        "state": status.state.value,
        "transport": status.transport and status.transport.value,
        "era": status.era,
        "last_error": status.last_error,
        "discovered_at": status.discovered_at,
        "stale": status.stale,
        "counts": status.counts,
        "connect_ms": connect_ms,
        "reconnects": status.reconnects,
        "attempts": status.attempts or None,
        "next_attempt_at": status.next_attempt_at,
        "sessions": status.sessions and _sessions(status.sessions),
        "problems": status.problems or None,
    }
    return without_none(line)


def _sessions(counts: SessionCounts) -> dict[str, int]:
    return {"open": counts.open, "busy": counts.busy, "max": counts.max}


PATH = "/internal/mcp/servers"

_NO_SERVER = SharedAnswer(
    "NoSuchServer", Answer("NOT_FOUND: mcp.json has no server with this id.", ErrorEnvelope)
)


def server_routes(build: RouteBuilder, servers: ServerHandlers) -> Sequence[DirectRoute]:
    """Build the routes."""
    listed = show_responses(ServersAnswer, "All servers in mcp.json.")
    reconnecting = show_responses(ServerAnswer, "")
    return (
        build.get(
            PATH,
            servers.list_servers,
            operation_id="list_servers",
            tag=Tag.STATUS,
            summary="Show the state of the downstream servers",
            description=(
                "Lists all servers and their state. With `offers`, operators with the right "
                "`audit` also get all items that one server offers."
            ),
            query=ServersQuery,
            responses={**listed, 404: _NO_SERVER},
            headers=TRACED,
        ),
        build.change(
            "POST",
            f"{PATH}/{{server_id}}/reconnect",
            servers.reconnect,
            operation_id="reconnect_server",
            tag=Tag.STATUS,
            summary="Reconnect a server",
            description=(
                "Reconnects at once on the replica that receives the request, without waiting "
                "for the next retry; a stdio server's process is restarted. Calls in flight end "
                "as if the connection was lost. Several requests in quick succession "
                "reconnect it only once. Requires the operator right `config`."
            ),
            path_parameters=ServerPath,
            responses={
                202: Answer("The server's current state. It is being reconnected.", ServerAnswer),
                **{status: it for status, it in reconnecting.items() if status != 200},
                404: _NO_SERVER,
            },
            headers=TRACED,
        ),
    )
