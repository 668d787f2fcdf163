"""The stream of records, for operators with the right ``audit``: /internal/mcp/calls/stream."""

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.lifecycle import Phase
from mcp_tools_proxy.http.api import audit_routes
from mcp_tools_proxy.http.responses import PING_S
from mcp_tools_proxy.telemetry.audit.audit_trail import MAX_WAITING
from tests.api.document_operator import ADMIN
from tests.support.bounds import until
from tests.support.mcp_endpoint import Served, serving
from tests.support.record_streams import STREAM, watching
from tests.support.service import request_of
from tests.support.tokens import TOKENS_FILE, bearer, file_token, signed_token, token_settings
from tests.support.tokens import jwt_settings as of_jwts

AUDIT = "/internal/mcp/audit"
DOC_1 = {"doc_id": "doc_1"}


async def call(served: Served, trace_id: str, *, tenant_id: str = "tenant_1", **more: Any) -> None:
    name = more.pop("tool", "read_doc_metadata")
    request = request_of(name, DOC_1, tenant_id=tenant_id, trace_id=trace_id, **more)
    headers = more.pop("headers", {})
    await served.http.post("/internal/mcp/execute", json=request, headers=headers)


def followers(served: Served) -> int:
    return served.service.gateway.audit.followers


def record_now(served: Served, number: int, **fields: object) -> None:
    """Record an attempt immediately, while no other task runs."""
    payload = {"code": "OK", "number": number, **fields}
    served.service.gateway.audit.record("info", "tool.call", f"t-{number}", payload)


def write_tokens(text: str) -> None:
    """Replace the tokens file atomically: a partially written file would invalidate all tokens."""
    draft = TOKENS_FILE.with_suffix(".new")
    draft.write_text(text)
    draft.replace(TOKENS_FILE)


async def refusal(served: Served, token: str | None = None, **query: str) -> tuple[int, str]:
    headers = {} if token is None else bearer(token)
    answer = await served.http.get(STREAM, params=query, headers=headers)
    return answer.status_code, answer.json()["error"]["code"]


async def records_of(served: Served, event: str) -> list[dict[str, Any]]:
    found = await served.http.get(AUDIT, params={"event": event}, headers=bearer(ADMIN))
    return [it["payload"] for it in found.json()["records"]]


async def test_a_streamed_record_equals_the_audit_record() -> None:
    async with serving(admin_token=ADMIN) as served:
        async with watching(served.http, ADMIN) as reader:
            await call(served, "t-1")
            event, record = await reader.next()
            assert reader.response.headers["content-type"].startswith("text/event-stream")
        found = await served.http.get(AUDIT, params={"trace_id": "t-1"}, headers=bearer(ADMIN))
        (audited,) = found.json()["records"]
        del audited["seq"]
        assert (event, record) == ("record", audited)


async def test_only_records_that_match_the_query_are_streamed() -> None:
    query = {"tool": "read_doc_metadata", "code": "DOCUMENT_NOT_FOUND", "user_id": "user_1"}
    async with (
        serving(admin_token=ADMIN) as served,
        watching(served.http, ADMIN, **query) as reader,
    ):
        await call(served, "t-1")
        await call(served, "t-2", tool="read_doc_pages")
        await served.http.post(
            "/internal/mcp/execute",
            json=request_of("read_doc_metadata", {"doc_id": "none"}, trace_id="t-3"),
        )
        assert (await reader.next())[1]["trace_id"] == "t-3"


async def test_a_right_for_one_tenant_streams_only_its_records() -> None:
    settings = token_settings()
    token = file_token(tenant="tenant_1", may=[OperatorRight.AUDIT])
    callers = {tenant: file_token(tenant=tenant, user="u") for tenant in ("tenant_1", "tenant_2")}
    async with serving(**settings) as served:
        assert await refusal(served, token) == (403, "FORBIDDEN")
        assert await refusal(served, token, tenant_id="tenant_2") == (403, "FORBIDDEN")
        async with watching(served.http, token, tenant_id="tenant_1") as reader:
            for tenant_id in ("tenant_2", "tenant_1"):
                await served.http.post(
                    "/internal/mcp/execute",
                    json={"tool_name": "read_doc_metadata", "arguments": DOC_1},
                    headers=bearer(callers[tenant_id]),
                )
            _, record = await reader.next()
            assert record["payload"]["tenant_id"] == "tenant_1"


async def test_the_stream_needs_the_right() -> None:
    async with serving() as served:
        assert await refusal(served) == (403, "FORBIDDEN")
    async with serving(admin_token=ADMIN) as served:
        assert await refusal(served, "another") == (401, "UNAUTHENTICATED")
        assert await refusal(served, ADMIN, since="2026-01-01T00:00:00Z") == (
            422,
            "INVALID_REQUEST",
        )


async def test_a_seventeenth_stream_is_refused_until_another_one_has_ended() -> None:
    async with serving(admin_token=ADMIN) as served, AsyncExitStack() as open_streams:
        for _ in range(audit_routes.MAX_STREAMS - 1):
            await open_streams.enter_async_context(watching(served.http, ADMIN))
        async with watching(served.http, ADMIN):
            assert await refusal(served, ADMIN) == (503, "NO_ROOM")
        await until(lambda: followers(served) < audit_routes.MAX_STREAMS)
        async with watching(served.http, ADMIN):
            pass


async def test_the_operators_of_one_tenant_cannot_take_all_streams() -> None:
    token, other = (
        file_token(tenant=tenant, may={OperatorRight.AUDIT}) for tenant in ("acme", "rival")
    )
    async with serving(**token_settings()) as served, AsyncExitStack() as open_streams:
        for _ in range(audit_routes.MAX_OF_TENANT):
            stream = watching(served.http, token, tenant_id="acme")
            await open_streams.enter_async_context(stream)
        assert await refusal(served, token, tenant_id="acme") == (503, "NO_ROOM")
        async with watching(served.http, other, tenant_id="rival"):
            pass


async def test_a_slow_reader_loses_records_and_is_notified() -> None:
    async with serving(admin_token=ADMIN) as served, watching(served.http, ADMIN) as reader:
        for number in range(MAX_WAITING + 44):
            record_now(served, number)
        found = [await reader.next() for _ in range(MAX_WAITING + 1)]
        record_now(served, 1000)
        assert [it["payload"]["number"] for _, it in found[:-1]] == [*range(MAX_WAITING)]
        assert found[-1] == ("lost", {"records": 44})
        assert (await reader.next())[1]["payload"]["number"] == 1000


async def test_a_stalled_reader_holds_at_most_its_queue() -> None:
    count, text = 600, "x" * 16_384
    async with serving(admin_token=ADMIN) as served, AsyncExitStack() as stack:
        address = urlsplit(served.url)
        stuck = stack.enter_context(socket.socket())
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        stuck.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stuck, (address.hostname, address.port))
        head = f"GET {STREAM} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
        await loop.sock_sendall(stuck, head.encode())
        await until(lambda: followers(served))
        for number in range(count):
            record_now(served, number, text=text)
            await asyncio.sleep(0)
        await call(served, "t-1")  # others are not affected
        data = b""
        while b"event: lost" not in data or not data.endswith(b"\r\n\r\n"):
            data += await loop.sock_recv(stuck, 1 << 20)
        lost = int(data.partition(b'{"records":')[2].partition(b"}")[0])
        assert data.count(b"event: record") + lost >= count
        assert lost > 0


async def test_a_stream_ends_when_its_token_is_revoked() -> None:
    settings = token_settings()
    kept = file_token(tenant=None, may=[OperatorRight.AUDIT])
    left = TOKENS_FILE.read_text()
    revoked = file_token(tenant=None, may=[OperatorRight.AUDIT])
    async with (
        serving(**settings) as served,
        watching(served.http, kept) as other,
        watching(served.http, revoked) as reader,
    ):
        write_tokens(left)
        *_, end = await reader.rest()
        assert end == ("end", {"reason": "UNAUTHENTICATED"})
        opened, changed, ended = [(await other.next())[1] for _ in range(3)]
        assert (opened["event"], changed["event"]) == ("operator.right_used", "tokens.changed")
        assert (ended["event"], ended["payload"]["code"]) == (
            "audit.stream_ended",
            "UNAUTHENTICATED",
        )


async def test_a_stream_ends_when_the_token_loses_the_right_for_the_tenant() -> None:
    settings = token_settings()
    token = file_token(tenant="tenant_1", may=[OperatorRight.AUDIT])
    tokens = TOKENS_FILE.read_text()
    async with (
        serving(**settings) as served,
        watching(served.http, token, tenant_id="tenant_1") as reader,
    ):
        write_tokens(tokens.replace("tenant_1", "tenant_2"))
        *_, end = await reader.rest()
        assert end == ("end", {"reason": "FORBIDDEN"})


async def test_a_user_with_a_jwt_needs_the_right_in_its_claim() -> None:
    async with serving(**of_jwts()) as served:
        assert await refusal(served, signed_token()) == (403, "FORBIDDEN")
        token = signed_token(may=[OperatorRight.AUDIT])
        async with watching(served.http, token, tenant_id="tenant_1"):
            assert followers(served) == 1


async def test_a_stream_ends_with_the_gateway() -> None:
    async with serving(admin_token=ADMIN) as served, watching(served.http, ADMIN) as reader:
        served.service.gateway.lifecycle.phase = Phase.STOPPING
        assert await reader.rest() == [("end", {"reason": "SHUTTING_DOWN"})]
        assert await refusal(served, ADMIN) == (503, "SHUTTING_DOWN")


async def test_start_and_end_of_a_stream_are_recorded() -> None:
    async with serving(admin_token=ADMIN) as served:
        async with watching(served.http, ADMIN, tenant_id="tenant_1") as reader:
            await call(served, "t-1")
            await reader.next()
        await until(lambda: not followers(served))
        (ended,) = await records_of(served, "audit.stream_ended")
        opened = (await records_of(served, "operator.right_used"))[-1]
    shared = {"right": "audit", "tenant_id": "tenant_1", "token_id": "admin_token"}
    shared |= {"code": "OK", "route": f"GET {STREAM}", "entry": "api", "peer": "127.0.0.1"}
    assert opened == shared
    assert ended == {**shared, "records": 1, "lost": 0}


async def test_idle_streams_send_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_tools_proxy.http.api.audit_routes.PING_S", 0.01)
    assert PING_S == 15
    async with serving(admin_token=ADMIN) as served, watching(served.http, ADMIN) as reader:
        assert [await reader.next() for _ in range(3)] == [("", ": ping")] * 3


async def test_a_disconnected_client_delays_no_other() -> None:
    async with serving(admin_token=ADMIN) as served:
        async with httpx.AsyncClient(base_url=served.url) as client, watching(client, ADMIN):
            assert followers(served) == 1
        await until(lambda: not followers(served))
        await call(served, "t-1")
