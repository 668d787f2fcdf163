"""The caller's end of a call: what it can be told and asked while the call runs."""

from collections.abc import Mapping
from typing import Protocol

from mcp_tools_proxy.domain.errors import ProxyError


class ClientRequestFailed(Exception):
    """The client did not answer a question; ``code`` and ``message`` are a JSON-RPC error's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client(Protocol):
    """Who waits for a call's result, over a protocol that may carry more than the result.

    Notes (notifications) and questions are MCP's: a method, and params as on its wire.
    """

    @property
    def capabilities(self) -> Mapping[str, object]:
        """What it declared, as MCP spells it: ``{"elicitation": {"form": {}}, "sampling": {}}``."""
        ...

    @property
    def wants_progress(self) -> bool:
        """Whether it asked to be told of this call's progress."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least level of log lines that it asked for, as MCP spells it: ``info``.

        Servers of MCP 2026-07-28 send none to one that asked for none; an older server sends what
        it pleases, and who implements this leaves out what is below.
        """
        ...

    @property
    def supports_input_required(self) -> bool:
        """Whether it takes ``input_required`` for a result, and then calls again with the answers.

        That is how it is asked in MCP 2026-07-28; any other client is asked by ``request``.
        """
        ...

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Tell it of this call's progress, or a log line; what it cannot be told is dropped.

        Of ``notifications/progress`` the token is left out: it is the client's own. Never raises.
        """
        ...

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Ask it ``elicitation/create``, ``sampling/createMessage`` or ``roots/list``.

        Gives its raw result. Raises ClientRequestFailed when it cannot be asked, or answers with an
        error.
        """
        ...


class NullClient:
    """The client of a call whose caller waits for the result and no more."""

    capabilities: Mapping[str, object] = {}
    wants_progress = False
    log_level: str | None = None
    supports_input_required = False

    async def notify(self, method: str, params: Mapping[str, object]) -> None:
        """Drop it."""

    async def request(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Raise ClientRequestFailed."""
        raise ClientRequestFailed(-32601, "the caller of this tool cannot be asked anything")


NULL_CLIENT = NullClient()


class CapacityExceeded(ProxyError):
    """More sessions, streams, open requests or unread messages of MCP clients than there may be."""

    code = "NO_ROOM"
    retryable = True
