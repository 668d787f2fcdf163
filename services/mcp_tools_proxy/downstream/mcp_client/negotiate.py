"""Negotiation of a version: ``server/discover`` first, then ``initialize`` of older eras.

The rules are those of the SDK's own client, except for the time-out of the probe.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

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

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.downstream.connection import (
    AccessRefused,
    ConnectionFailure,
    ResponseTooLarge,
    ResultNotAnObject,
)
from mcp_tools_proxy.downstream.mcp_client.error_mapping import (
    from_mcp_error,
    is_era_independent,
)
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import quote

LONGEST_PROBE_S = 5.0
"""Longest wait for the probe before ``initialize`` is sent as well."""

_VERSIONS_SHOWN = 5


def probe_timeout_for(connect_timeout_s: float) -> float:
    """Return the seconds to wait for ``server/discover`` before ``initialize``."""
    return min(LONGEST_PROBE_S, connect_timeout_s / 3)


Discover = Callable[[str], Awaitable[dict[str, Any]]]
"""Sends ``server/discover`` at a version and returns the raw result. Raises MCPError."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """Outcome of ``server/discover``: the result, why it is unusable, or a final error."""

    found: DiscoverResult | None = None
    problem: str | None = None
    final: MCPError | None = None


async def negotiate(
    session: ClientSession, discover: Discover, *, probe_timeout_s: float, probe: bool
) -> None:
    """Negotiate a version; without ``probe``, offer the older eras only.

    Raises JsonRpcError, ConnectionFailure, ResponseTooLarge.
    """
    try:
        if probe:
            await _probe_and_initialize(session, discover, probe_timeout_s)
        else:
            await _initialize(session)
    except MCPError as error:
        if error.code == REQUEST_TIMEOUT:
            raise ConnectionFailure("the server did not answer the handshake in time") from None
        if versions := _versions_named(error):
            raise ConnectionFailure(_unsupported(versions)) from None
        raise from_mcp_error(error) from None


async def _probe_and_initialize(
    session: ClientSession, discover: Discover, probe_timeout_s: float
) -> None:
    """Try the modern era, then the older ones.

    The probe stays open: a slow server can answer it late, choose the modern era because of it, and
    refuse or ignore ``initialize`` (seen with servers of the Go SDK that need 5 s to start).
    """
    probing = asyncio.ensure_future(_probe(discover, LATEST_MODERN_VERSION))
    try:
        try:
            await asyncio.wait({probing}, timeout=probe_timeout_s)
            if _adopt(session, probing):
                return
            if (final := _final_of(probing)) is not None:
                raise final
            async with asyncio.timeout(None) as limit:
                probing.add_done_callback(
                    lambda _: _limit_if_modern(limit, probing, probe_timeout_s)
                )
                await _initialize(session)
        except (MCPError, ConnectionFailure, TimeoutError) as failure:
            await asyncio.wait({probing}, timeout=probe_timeout_s)
            if _adopt(session, probing):
                return
            error = _final_of(probing) or failure
            version = _newest_common(_versions_named(error))
            if version is None:
                raise _with_problem(error, probing) from None
            second = _Probe()
            with suppress(TimeoutError):
                async with asyncio.timeout(probe_timeout_s):
                    second = await _probe(discover, version)
            if second.found is None:
                raise _with_problem(error, probing) from None
            session.adopt(second.found)
    finally:
        probing.cancel()
        await asyncio.wait({probing})


def _limit_if_modern(limit: asyncio.Timeout, probing: asyncio.Task[_Probe], wait_s: float) -> None:
    if not probing.cancelled() and probing.result().found is not None:
        with suppress(RuntimeError):  # initialize is over
            limit.reschedule(asyncio.get_running_loop().time() + wait_s)


def _adopt(session: ClientSession, probing: asyncio.Task[_Probe]) -> bool:
    found = probing.result().found if probing.done() else None
    if found is None:
        return False
    session.adopt(found)
    return True


def _final_of(probing: asyncio.Task[_Probe]) -> MCPError | None:
    return probing.result().final if probing.done() else None


def _with_problem(
    error: MCPError | ConnectionFailure | TimeoutError, probing: asyncio.Task[_Probe]
) -> Exception:
    problem = probing.result().problem if probing.done() else None
    if problem is None:
        return error
    match from_mcp_error(error) if isinstance(error, MCPError) else error:
        case JsonRpcError(code=code) as fault if code != REQUEST_TIMEOUT:
            return ConnectionFailure(f"{problem}; initialize: error {code}: {quote(fault.message)}")
        case AccessRefused() | ResponseTooLarge():
            return error
        case ConnectionFailure() as fault:  # its kind decides about the next attempt
            fault.reason = f"{problem}; initialize: {fault.reason}"
            fault.for_operators = f"{problem}; initialize: {fault.for_operators}"
            return fault
        case _:
            return ConnectionFailure(f"{problem}; initialize: no answer in time")


async def _initialize(session: ClientSession) -> None:
    """Negotiate an older era. Raises MCPError, ConnectionFailure."""
    try:
        await session.initialize()
    except ValidationError as error:
        raise ConnectionFailure(_invalid("initialize", error)) from None
    except RuntimeError as error:
        version = str(error).rpartition(": ")[2]
        raise ConnectionFailure(_unsupported([version])) from None


def _invalid(method: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"])) or "result"
    problem = first["msg"][:1].lower() + first["msg"][1:]
    return f"the server's answer to {method} is not valid MCP: {quote(field)}: {problem}"


def _unsupported(versions: Sequence[str]) -> str:
    theirs = ", ".join(quote(it) for it in versions[:_VERSIONS_SHOWN])
    ours = ", ".join((*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS))
    return f"the server's protocol version is not supported: {theirs}; supported are {ours}"


async def _probe(discover: Discover, version: str) -> _Probe:
    """Send ``server/discover``; never raises."""
    try:
        found = DiscoverResult.model_validate(await discover(version))
    except ValidationError as error:
        return _Probe(problem=_invalid("server/discover", error))
    except MCPError as error:
        if isinstance(fault := from_mcp_error(error), ResultNotAnObject):
            return _Probe(problem=f"server/discover: {fault.reason}")
        return _Probe(final=error) if _is_final(error) else _Probe()
    if _newest_common(found.supported_versions) is None:
        return _Probe(problem=_unsupported(found.supported_versions))
    return _Probe(found=found)


def _is_final(error: MCPError) -> bool:
    if is_era_independent(from_mcp_error(error)):
        return True
    named = _versions_named(error)
    return bool(named) and (
        _newest_common(named) is not None
        or not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in named)
    )


def _versions_named(error: Exception) -> list[str]:
    if not isinstance(error, MCPError) or error.code != UNSUPPORTED_PROTOCOL_VERSION:
        return []
    try:
        return UnsupportedProtocolVersionErrorData.model_validate(error.data).supported
    except ValidationError:
        return []


def _newest_common(versions: list[str]) -> str | None:
    common = [version for version in MODERN_PROTOCOL_VERSIONS if version in versions]
    return common[-1] if common else None
