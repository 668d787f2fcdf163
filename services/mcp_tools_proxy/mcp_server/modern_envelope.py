"""The envelope of a request of MCP 2026-07-28: what ``params._meta`` and HTTP headers have to say.

The checks are in the order of the specification, so that the first fault is the one reported:
``_meta``, then that the headers agree with the body, then the version.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp_tools_proxy.mcp_server.clients import LEVELS, is_client_info
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    LOG_LEVEL_META_KEY,
    MODERN_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)

REQUIRED_KEYS = (PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY)

NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose requests repeat a parameter in the header ``Mcp-Name``, and which."""

_ENTRIES: Sequence[tuple[str, Callable[[Any], bool], str]] = (
    (CLIENT_INFO_META_KEY, is_client_info, "an object with name and version"),
    (CLIENT_CAPABILITIES_META_KEY, lambda value: isinstance(value, dict), "an object"),
    (LOG_LEVEL_META_KEY, lambda value: value in LEVELS, f"one of {', '.join(LEVELS)}"),
    (
        "progressToken",
        lambda value: isinstance(value, str | int) and not isinstance(value, bool),
        "a string or a whole number",
    ),
)

_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def read_envelope(content: Mapping[str, Any], headers: Mapping[str, str] | None) -> object:
    """Check the envelope of a JSON-RPC request; return the capabilities that its client declares.

    They may be of any type. ``headers`` are those of the HTTP request, their names in lower case;
    None for other carriers. Raises JsonRpcError.
    """
    params = content.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        text = f"params._meta should be an object with {' and '.join(REQUIRED_KEYS)}"
        raise JsonRpcError(INVALID_PARAMS, text)
    missing = [key for key in REQUIRED_KEYS if key not in meta]
    if missing:
        raise JsonRpcError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    version = meta[PROTOCOL_VERSION_META_KEY]
    if headers is not None:
        _check_headers(headers, version, content["method"], params)
    if not isinstance(version, str):
        raise JsonRpcError(INVALID_PARAMS, f"{PROTOCOL_VERSION_META_KEY} should be a string")
    check_version(version)
    return meta[CLIENT_CAPABILITIES_META_KEY]


def check_meta(meta: Mapping[str, Any]) -> None:
    """Raise JsonRpcError if an entry of ``_meta`` is of a wrong type.

    For the protocol's own methods: a call is not refused for what only says who calls.
    """
    for key, is_valid, kind in _ENTRIES:
        if key in meta and not is_valid(meta[key]):
            raise JsonRpcError(INVALID_PARAMS, f"{key} in params._meta should be {kind}")


def check_version(version: str) -> None:
    """Raise JsonRpcError unless the version is one that is served without a session."""
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        raise JsonRpcError(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def _check_headers(
    headers: Mapping[str, str], version: object, method: str, params: Mapping[str, Any]
) -> None:
    """Raise JsonRpcError if the headers that proxies route by say otherwise than the body."""
    if "mcp-protocol-version" not in headers or headers["mcp-protocol-version"] != version:
        raise _mismatch("mcp-protocol-version", "protocol version")
    if headers.get("mcp-method") != method:
        raise _mismatch("mcp-method", "method")
    parameter = NAME_PARAMETERS.get(method)
    if parameter is not None:
        name = params.get(parameter)
        if name is not None and _decoded(headers.get("mcp-name")) != name:
            raise _mismatch("mcp-name", f"parameter {parameter}")


def _mismatch(header: str, what: str) -> JsonRpcError:
    return JsonRpcError(HEADER_MISMATCH, f"the header {header} differs from the body's {what}")


def _decoded(value: str | None) -> str | None:
    """Return a header's text, which may be in Base64; None if that is malformed.

    Only the one spelling that an encoder makes is accepted: else two readers of the same header
    might see two names.
    """
    encoded = None if value is None else _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        data = b64decode(encoded[1], validate=True)
        return data.decode() if b64encode(data).decode() == encoded[1] else None
    except (binascii.Error, ValueError):
        return None
