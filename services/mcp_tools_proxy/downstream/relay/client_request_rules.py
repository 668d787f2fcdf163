"""What a server may ask of a call's client, and whom it may ask: pure functions."""

from collections.abc import Mapping

from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic_core import to_json

from mcp_tools_proxy.domain.client import ClientRequestFailed

ELICITATION = "elicitation/create"
SAMPLING = "sampling/createMessage"
ROOTS = "roots/list"

CAPABILITY_OF = {ELICITATION: "elicitation", SAMPLING: "sampling", ROOTS: "roots"}
"""What a client declares that takes the question."""

CLIENT_REQUESTS = frozenset(CAPABILITY_OF)

MAX_CLIENT_REQUEST_BYTES = 1024 * 1024
"""What one question may have as JSON."""


def relay_capabilities(capabilities: Mapping[str, object]) -> dict[str, object]:
    """Give what of a client's capabilities concerns questions."""
    return {name: capabilities[name] for name in CAPABILITY_OF.values() if name in capabilities}


def unsupported_reason(
    method: object, params: Mapping[str, object], capabilities: Mapping[str, object]
) -> ClientRequestFailed | None:
    """Say why a client with these ``capabilities`` cannot be asked; None when it can.

    The codes are those that MCP gives the cases.
    """
    name = CAPABILITY_OF.get(method) if isinstance(method, str) else None
    if name is None:
        return ClientRequestFailed(METHOD_NOT_FOUND, "a client cannot be asked this")
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
        return ClientRequestFailed(INVALID_PARAMS, "the question has text that is not Unicode")
    if size > MAX_CLIENT_REQUEST_BYTES:
        return ClientRequestFailed(
            INVALID_PARAMS, f"the question is {size} bytes, the limit is {MAX_CLIENT_REQUEST_BYTES}"
        )
    return None


def _missing_part(name: str, params: Mapping[str, object], value: object) -> str | None:
    """Name the part of a capability that a question needs and the client has not declared."""
    parts = value if isinstance(value, Mapping) else {}
    if name == "elicitation":
        mode = "url" if params.get("mode") == "url" else "form"
        if mode not in parts and (mode == "url" or "url" in parts):  # an empty one means forms
            return f"elicitation.{mode}"
    if (
        name == "sampling"
        and "tools" not in parts
        and ("tools" in params or "toolChoice" in params)
    ):
        return "sampling.tools"
    return None
