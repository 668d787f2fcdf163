"""Log lines of refused requests and calls: caller, route, reason (contract §7)."""

from typing import Any

import pytest

from mcp_tools_proxy.auth.token_format import read_lines
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_agent
from tests.support.mcp_endpoint import BOTH
from tests.support.service import ACTIVE, EXECUTE, SERVERS, TOOLS, Service, running
from tests.support.signing import ISSUER
from tests.support.tokens import (
    MODES,
    TOKENS_FILE,
    bearer,
    file_token,
    signed_token,
    token_settings,
)

READ: dict[str, object] = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc"}}
USER = {"user_id": "u", "tenant_id": "tenant_1"}
PEER = "127.0.0.1"

Lines = list[Any]


def refused(lines: Lines) -> dict[str, Any]:
    (line,) = [line for line in lines if line["event"] == "request.refused"]
    return {key: line.get(key) for key in ("code", "route", "peer", "tenant_id", "token_id")}


def token_id() -> str:
    (entry,) = read_lines(TOKENS_FILE.read_bytes()).entries
    return entry.id


async def load(service: Service) -> None:
    assert service.gateway.tokens is not None
    await service.gateway.tokens.load()


@pytest.mark.parametrize(
    ("token", "reason"),
    [(None, "needs a token"), ("mtp_bad", "not known"), ("", "needs a token")],
    ids=["none", "bad", "empty"],
)
@pytest.mark.parametrize("path", [TOOLS, SERVERS, "/mcp", "/mcp/sse"])
async def test_an_unknown_caller_is_logged_with_reason_route_and_peer(
    path: str, token: str | None, reason: str
) -> None:
    headers = {} if token is None else bearer(token)
    async with running(**token_settings()) as service:
        with capture_logs() as lines:
            await service.http.get(path, headers=headers)
    assert refused(lines) == {
        "code": "UNAUTHENTICATED",
        "route": f"GET {path}",
        "peer": PEER,
        "tenant_id": None,
        "token_id": None,
    }
    assert reason in lines[0]["reason"]
    assert "field" not in lines[0], "no field is wrong"


@pytest.mark.parametrize("path", [EXECUTE, "/mcp", "/mcp/sse"])
async def test_a_known_caller_is_logged_with_tenant_and_token(path: str) -> None:
    async with running(**token_settings()) as service:
        headers = bearer(file_token(), **{"X-Tenant-Id": "tenant_2"})
        await load(service)
        with capture_logs() as lines:
            await service.http.post(path, json=READ | {"user": {"user_id": "u"}}, headers=headers)
    assert refused(lines) == {
        "code": "FORBIDDEN",
        "route": f"POST {path}",
        "peer": PEER,
        "tenant_id": "tenant_1",
        "token_id": token_id(),
    }
    assert "another tenant" in lines[0]["reason"]


async def test_an_error_after_the_token_check_is_logged_with_the_token() -> None:
    async with running(**token_settings()) as service:
        headers = bearer(file_token())
        await load(service)
        with capture_logs() as no_user:
            await service.http.post(EXECUTE, json=READ, headers=headers)
        with capture_logs() as no_operator:
            await service.http.put(ACTIVE, json={"preset_id": "x"}, headers=headers)
    for lines, code in ((no_user, "INVALID_REQUEST"), (no_operator, "FORBIDDEN")):
        line = refused(lines)
        found = (line["code"], line["tenant_id"], line["token_id"])
        assert found == (code, "tenant_1", token_id())


async def test_unverified_identities_are_not_logged() -> None:
    async with running() as service:
        with capture_logs() as lines:
            await service.http.post(
                EXECUTE, json={"tool_name": 5, "user": USER}, headers={"X-Tenant-Id": "tenant_1"}
            )
    assert (refused(lines)["tenant_id"], lines[0]["field"]) == (None, "tool_name")


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_is_logged_with_its_token(mode: str) -> None:
    settings, make = MODES[mode]
    document = make_document(tenant_id="tenant_1")
    async with running(document, **settings()) as service:
        headers = bearer(make(user="u-1"))
        await load(service)
        with capture_logs() as lines:
            await service.http.post(EXECUTE, json=READ, headers=headers)
    (call,) = [line for line in lines if line["event"] == "tool.call"]
    found = {key: call.get(key) for key in ("token_id", "issuer", "subject")}
    assert found == (
        {"token_id": token_id(), "issuer": None, "subject": None}
        if mode == "token"
        else {"token_id": None, "issuer": ISSUER, "subject": "u-1"}
    )


async def test_a_call_over_mcp_is_logged_with_its_token() -> None:
    async with running(make_document(tenant_id="tenant_1"), **token_settings()) as service:
        headers = {**bearer(file_token()), **BOTH, "MCP-Protocol-Version": "2026-07-28",
                   "Mcp-Method": "tools/call", "Mcp-Name": "read_doc_metadata"}  # fmt: skip
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "read_doc_metadata", "arguments": {"doc_id": "doc"}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        await load(service)
        with capture_logs() as lines:
            await service.http.post("/mcp", json=body, headers=headers)
    (call,) = [line for line in lines if line["event"] == "tool.call"]
    assert call["token_id"] == token_id()


async def test_a_refusal_of_the_admin_token_names_it() -> None:
    admin = "an-admin-token-of-16"
    async with running(**token_settings(), admin_token=admin) as service:
        with capture_logs() as lines:
            await service.http.post(EXECUTE, json=READ, headers=bearer(admin))
    assert refused(lines)["token_id"] == "admin_token"


async def test_a_missing_agent_is_logged_with_tenant_and_token() -> None:
    config = Config(agents=[make_agent("one"), make_agent("two")])
    async with running(config=config, **token_settings()) as service:
        headers = bearer(file_token(agents=("one", "two"), user="u"))
        await load(service)
        with capture_logs() as lines:
            await service.http.post("/mcp", json={}, headers=headers)
    assert (refused(lines)["code"], refused(lines)["token_id"]) == ("AGENT_REQUIRED", token_id())


async def test_a_trusted_proxy_sets_the_peer() -> None:
    forwarded = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7:4711"}
    async with running(**token_settings(), trusted_proxies=("127.0.0.0/8",)) as service:
        with capture_logs() as lines:
            await service.http.get(TOOLS, headers=forwarded)
    assert refused(lines)["peer"] == "203.0.113.7"


async def test_no_proxy_is_trusted_by_default() -> None:
    async with running(**token_settings()) as service:
        with capture_logs() as lines:
            await service.http.get(TOOLS, headers={"X-Forwarded-For": "203.0.113.7"})
    assert refused(lines)["peer"] == PEER


async def test_a_refused_jwt_proves_nothing() -> None:
    settings, _ = MODES["jwt"]
    async with running(**settings()) as service:
        with capture_logs() as lines:
            await service.http.get(TOOLS, headers=bearer(signed_token()[:-6]))
    assert (refused(lines)["tenant_id"], "subject" in lines[0]) == (None, False)
