"""Our own MCP definitions compared with the SDK: names, and validation of the envelope."""

import itertools
from collections.abc import Mapping
from typing import Any

import mcp.types
import pytest
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    NAME_BEARING_METHODS,
    X_MCP_HEADER_KEY,
    InboundLadderRejection,
    classify_inbound_request,
    encode_header_value,
)
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from mcp_tools_proxy.mcp.server.stateless import NAME_PARAMETERS, read_envelope
from mcp_tools_proxy.wire import mcp_protocol
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.mcp_protocol import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)

ELSEWHERE = {
    "CLIENT_ERROR_CODES": {
        mcp.types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        mcp.types.URL_ELICITATION_REQUIRED,
    },
    "HANDSHAKE_VERSIONS": HANDSHAKE_PROTOCOL_VERSIONS,
    "MODERN_VERSIONS": MODERN_PROTOCOL_VERSIONS,
    "HTTP_STATUS_OF_ERROR": ERROR_CODE_HTTP_STATUS,
    "SUBSCRIPTION_ID_META_KEY": SUBSCRIPTION_ID_META_KEY,
    "X_MCP_HEADER": X_MCP_HEADER_KEY,
}
"""Names that differ in the SDK or are not among its types."""

OURS = {
    name: value
    for name, value in vars(mcp_protocol).items()
    if name.isupper() and not name.startswith("_")
}

MODERN = MODERN_PROTOCOL_VERSIONS[-1]
NAMES = ("x", "имя", " x", "=?base64?eA==?=", "", "x" * 300)

METAS: list[Any] = [
    None,
    [],
    {},
    {PROTOCOL_VERSION_META_KEY: MODERN},
    {CLIENT_CAPABILITIES_META_KEY: {}},
    *(
        {PROTOCOL_VERSION_META_KEY: version, CLIENT_CAPABILITIES_META_KEY: {"roots": {}}}
        for version in (MODERN, "2025-11-25", "", None, 5, ["2026-07-28"])
    ),
    {PROTOCOL_VERSION_META_KEY: MODERN, CLIENT_CAPABILITIES_META_KEY: None},
]
HEADERS: list[Mapping[str, str] | None] = [
    None,
    {},
    *(
        {"mcp-protocol-version": version, "mcp-method": method} | named
        for version in (MODERN, "2025-11-25", "")
        for method in ("tools/call", "resources/read", "ping")
        for named in (
            {},
            *(
                {"mcp-name": value}
                for value in ("x", "=?base64?eA==?=", "=?base64?eB==?=", "=?base64?!?=")
            ),
            *({"mcp-name": encode_header_value(name)} for name in NAMES),
        )
    ),
]
PARAMS: list[Mapping[str, Any]] = [
    {},
    *({key: name} for key in ("name", "uri") for name in (*NAMES, 5, None)),
]


@pytest.mark.parametrize("name", OURS)
def test_names_mean_the_same_as_in_the_sdk(name: str) -> None:
    sdk = ELSEWHERE[name] if name in ELSEWHERE else getattr(mcp.types, name)
    assert OURS[name] == sdk


def test_the_same_parameters_are_repeated_in_a_header() -> None:
    assert dict(NAME_BEARING_METHODS) == NAME_PARAMETERS


@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get", "tools/list"])
def test_envelopes_are_validated_like_in_the_sdk(method: str) -> None:
    for meta, headers, params in itertools.product(METAS, HEADERS, PARAMS):
        content = {"method": method, "params": {**params, "_meta": meta}}
        assert validated(content, headers) == validated_by_sdk(content, headers), (content, headers)


@pytest.mark.parametrize("content", [{}, {"params": None}, {"params": []}, {"params": {}}])
def test_a_request_without_an_envelope_is_refused_like_in_the_sdk(content: dict[str, Any]) -> None:
    content |= {"method": "tools/list"}
    assert validated(content, None) == validated_by_sdk(content, None) == (-32602, None)


def validated(content: Mapping[str, Any], headers: Mapping[str, str] | None) -> object:
    """Return the capabilities, or the error's code and data."""
    try:
        return read_envelope(content, headers)
    except JsonRpcError as error:
        return error.code, error.data


def validated_by_sdk(content: Mapping[str, Any], headers: Mapping[str, str] | None) -> object:
    route = classify_inbound_request(content, headers=headers)
    if isinstance(route, InboundLadderRejection):
        return route.code, route.data
    return route.client_capabilities
