"""The sessions of the older eras over HTTP, as the SDK keeps them."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from mcp_tools_proxy.mcp_server.http.authentication import tenant_of
from mcp_tools_proxy.mcp_server.http.session_eviction import Kept


class HttpSessions(StreamableHTTPSessionManager):
    """The SDK's manager, which also tells which sessions there are, and ends unused ones.

    It leans on what the SDK keeps for itself: look here first when another ``mcp`` is pinned.
    """

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._server_instances

    def __len__(self) -> int:
        return len(self._server_instances)

    async def handle_read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request whose body was read already: the manager would read it once more."""
        await self._handle_request(scope, receive, send)

    @property
    def tenants(self) -> Counter[str]:
        """How many sessions each tenant has."""
        return Counter(map(self._tenant_of, self._server_instances))

    @property
    def unused(self) -> Sequence[Kept]:
        """The sessions that no request and no stream uses now."""
        return [
            Kept(self._tenant_of(id_), scope.deadline, partial(self._discard_session, id_, one))
            for id_, one in self._server_instances.items()
            if (scope := one.idle_scope) is not None and scope.deadline != math.inf
        ]

    def _tenant_of(self, session_id: str) -> str:
        owner = self._session_owners.get(session_id)
        return "" if owner is None else tenant_of(owner["client_id"])


def body_again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to who reads it next."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


def answering_204(send: Send) -> Send:
    """Answer 204 instead of 200: a session that was ended has nothing to say (F-05)."""
    ended = False

    async def sending(message: Message) -> None:
        nonlocal ended
        if message["type"] == "http.response.start" and message["status"] == 200:
            ended = True
            kept = [(k, v) for k, v in message["headers"] if not k.startswith(b"content-")]
            message = {**message, "status": 204, "headers": kept}
        elif ended:
            message = {**message, "body": b""}
        await send(message)

    return sending
