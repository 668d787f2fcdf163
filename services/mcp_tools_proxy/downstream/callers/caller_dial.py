"""Dials a server for one caller, or for none: each time with the values and secrets of now."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import CredentialsMissing, IdentityRequired
from mcp_tools_proxy.domain.server import ServerConfig, Transport
from mcp_tools_proxy.downstream.callers.caller_values import (
    CallerValues,
    has_session_secrets,
    is_fixed_beyond,
)
from mcp_tools_proxy.downstream.connection import (
    ConnectAttempt,
    Connection,
    ConnectionFailure,
    Dial,
    NotUsableAsConfigured,
    OnListChanged,
    ServerOutput,
)
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS


class CallerDial:
    """Dials for the sessions of ``caller``; ``dial`` is a Dial. None stands for no caller."""

    def __init__(self, dial: Dial, values: CallerValues, caller: Caller | None = None) -> None:
        self._dial = dial
        self._values = values
        self._caller = caller
        self._filled: ServerConfig | None = None

    def __repr__(self) -> str:
        return f"<CallerDial {self._values} has_caller={self._caller is not None}>"

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        on_list_changed: OnListChanged,
        output: ServerOutput,
        attempt: ConnectAttempt,
    ) -> AsyncIterator[Connection]:
        """Connect with everything filled in; see Dial. ``output`` is emptied first.

        Raises NotUsableAsConfigured where the server turns out to have headers that are fixed for
        the session, and the entry has headers that are not.
        """
        try:
            self._filled = await self._values.filled(config, self._caller)
        except (CredentialsMissing, IdentityRequired) as error:
            raise ConnectionFailure(
                error.message, for_operators=error.reason or error.message
            ) from None
        output.begin(_secrets_of(config, self._filled))
        access = await self._values.access(config, self._caller)
        async with self._dial(self._filled, on_list_changed, access, output, attempt) as connection:
            _check_era(config, connection)
            yield connection

    async def wait_secrets_changed(self, config: ServerConfig) -> None:
        """Wait until the session should be opened anew, since it has a secret that changed."""
        if self._filled is None or not has_session_secrets(config):
            await asyncio.Event().wait()  # until cancelled
        else:
            await self._values.wait_changed(config, self._caller, self._filled)


def _secrets_of(config: ServerConfig, filled: ServerConfig) -> Iterator[str]:
    """Yield what a program is given that it must not be quoted with."""
    yield from config.secrets
    yield from filled.env.values()
    texts = config.caller_texts
    for written, argument in zip(texts.args if texts else (), filled.args, strict=False):
        if not isinstance(written, str):
            yield argument


def _check_era(config: ServerConfig, connection: Connection) -> None:
    if connection.transport is Transport.STDIO or not is_fixed_beyond(config):
        return
    if connection.transport is Transport.STREAMABLE_HTTP and (
        connection.era not in HANDSHAKE_VERSIONS
    ):
        return
    how = f"{connection.transport.value} of MCP {connection.era}"
    raise NotUsableAsConfigured(
        f"the server uses {how}, where headers are fixed for a session, but headers of its entry "
        "contain parts of the caller that sessions are not separated by; "
        'set "isolation", or remove these headers'
    )
