"""Which requests a server may send to a call's client: pure functions."""

from collections.abc import Mapping

from pydantic_core import to_json

from mcp_tools_proxy.domain.client import ClientRequestFailed
from mcp_tools_proxy.wire.mcp_protocol import INVALID_PARAMS, METHOD_NOT_FOUND

ELICITATION = "elicitation/create"
SAMPLING = "sampling/createMessage"
ROOTS = "roots/list"

INPUT_REQUIRED = "input_required"
"""The ``resultType`` of a server that needs input before it can go on (MCP 2026-07-28)."""

CAPABILITY_OF = {ELICITATION: "elicitation", SAMPLING: "sampling", ROOTS: "roots"}
"""The capability that a client must declare to be sent each request."""

CLIENT_REQUESTS = frozenset(CAPABILITY_OF)

MAX_CLIENT_REQUEST_BYTES = 1024 * 1024
"""The largest params of one client request, as JSON."""


def input_required(raw: object) -> bool:
    """Return whether an answer requires input instead of being a result."""
    return isinstance(raw, dict) and raw.get("resultType") == INPUT_REQUIRED


def relay_capabilities(capabilities: Mapping[str, object]) -> dict[str, object]:
    """Return those of a client's capabilities that concern client requests."""
    return {name: capabilities[name] for name in CAPABILITY_OF.values() if name in capabilities}


def unsupported_reason(
    method: object, params: Mapping[str, object], capabilities: Mapping[str, object]
) -> ClientRequestFailed | None:
    """Return why a client with these ``capabilities`` cannot be sent a request; None if it can.

    The error codes are those that MCP assigns to the cases.
    """
    name = CAPABILITY_OF.get(method) if isinstance(method, str) else None
    if name is None:
        return ClientRequestFailed(METHOD_NOT_FOUND, "this request cannot be sent to a client")
    if name not in capabilities:
        return ClientRequestFailed(
            METHOD_NOT_FOUND, f"the client of this call did not declare {name}"
        )
    missing = _missing_part(name, params, capabilities[name])
    if missing is not None:
        return ClientRequestFailed(
            INVALID_PARAMS, f"the client of this call did not declare {missing}"
        )
    try:
        size = len(to_json(params))
    except ValueError:
        problem = "the question has text that is not valid Unicode"
        return ClientRequestFailed(INVALID_PARAMS, problem)
    if size > MAX_CLIENT_REQUEST_BYTES:
        return ClientRequestFailed(
            INVALID_PARAMS, f"the question is {size} bytes, the limit is {MAX_CLIENT_REQUEST_BYTES}"
        )
    return None


def _missing_part(name: str, params: Mapping[str, object], value: object) -> str | None:
    """Return the part of a capability that a request needs and the client has not declared."""
    parts = value if isinstance(value, Mapping) else {}
    if name == "elicitation":
        mode = "url" if params.get("mode") == "url" else "form"
        # MCP: an empty capability declares forms
        if mode not in parts and (mode == "url" or "url" in parts):
            return f"elicitation.{mode}"
    if (
        name == "sampling"
        and "tools" not in parts
        and ("tools" in params or "toolChoice" in params)
    ):
        return "sampling.tools"
    return None
