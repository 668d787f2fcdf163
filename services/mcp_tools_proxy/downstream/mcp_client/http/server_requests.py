"""Answering what a server asks of its client: pings, and requests that are politely declined."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mcp.shared.dispatcher import DispatchContext, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the session reads of a request's context."""

    request_id: int | str


async def answer_to(
    on_request: OnRequest, request_id: int | str, method: str, params: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Let the session answer the server's request; give the answer as a message."""
    context = cast("DispatchContext[TransportContext]", _Asked(request_id))
    try:
        return {"id": request_id, "result": await on_request(context, method, params)}
    except (MCPError, ValidationError) as error:
        data = handler_exception_to_error_data(error)
        return {"id": request_id, "error": data.model_dump(exclude_none=True) if data else {}}
