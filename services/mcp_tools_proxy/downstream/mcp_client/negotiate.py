"""Negotiates a protocol version: ``server/discover`` first, else the ``initialize`` of older eras.

The rules are those of the SDK's own client; only the time-out of the probe is ours.
"""

import asyncio

from mcp import ClientSession, MCPError
from mcp.types import (
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    DiscoverResult,
    UnsupportedProtocolVersionErrorData,
)
from mcp.types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.error_mapping import (
    from_mcp_error,
    is_era_independent,
)

LONGEST_PROBE_S = 5.0
"""Upper bound of the time-out of ``server/discover``."""


def probe_timeout_for(connect_timeout_s: float) -> float:
    """Return the seconds that a server has to answer ``server/discover``."""
    return min(LONGEST_PROBE_S, connect_timeout_s / 3)


async def negotiate(session: ClientSession, *, probe_timeout_s: float, probe: bool) -> None:
    """Negotiate a version; without ``probe``, offer the older eras only.

    Raises JsonRpcError, ConnectionFailure, ResponseTooLarge.
    """
    try:
        try:
            if probe and await _discover(session, LATEST_MODERN_VERSION, probe_timeout_s):
                return
            await session.initialize()
        except MCPError as error:
            # a slow server may answer the probe after its time-out, choose the modern era, and
            # then refuse ``initialize`` with the versions that it supports
            version = _newest_common(_versions_named(error))
            if version is None or not await _discover(session, version, probe_timeout_s):
                raise
    except MCPError as error:
        if error.code == REQUEST_TIMEOUT:
            raise ConnectionFailure("the server did not answer the handshake in time") from None
        raise from_mcp_error(error) from None
    except (ValidationError, RuntimeError):  # by ``initialize``: a broken result or version
        raise ConnectionFailure("the server's handshake is not valid MCP") from None


async def _discover(session: ClientSession, version: str, timeout_s: float) -> bool:
    """Send ``server/discover``; return False when its answer is not one of the modern era.

    Raises MCPError.
    """
    try:
        async with asyncio.timeout(timeout_s):
            raw = await session.send_discover(version)
        found = DiscoverResult.model_validate(raw)
    except (TimeoutError, ValidationError):
        return False
    except MCPError as error:
        if _is_final(error):
            raise
        return False
    if _newest_common(found.supported_versions) is None:
        return False
    session.adopt(found)
    return True


def _is_final(error: MCPError) -> bool:
    """Return whether ``initialize`` would fail as well."""
    if is_era_independent(from_mcp_error(error)):
        return True
    named = _versions_named(error)
    return bool(named) and (
        _newest_common(named) is not None
        or not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in named)
    )


def _versions_named(error: MCPError) -> list[str]:
    if error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return UnsupportedProtocolVersionErrorData.model_validate(error.data).supported
    except ValidationError:
        return []


def _newest_common(versions: list[str]) -> str | None:
    common = [version for version in MODERN_PROTOCOL_VERSIONS if version in versions]
    return common[-1] if common else None
