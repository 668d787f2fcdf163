"""Requests to the webhook of approvals: signed, repeated, and without arguments."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256

import httpx
import pytest

from mcp_tools_proxy.documents.service_http import ServiceHttp
from mcp_tools_proxy.gateway import approval_webhook
from mcp_tools_proxy.gateway.approval_webhook import ApprovalWebhook, signature_of
from mcp_tools_proxy.gateway.asked_calls import AskedFacts, AskedPolicy
from mcp_tools_proxy.system.backoff import Backoff
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs

KEY = b"k" * 32
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
FACTS = AskedFacts(
    approval_id="a1",
    tenant_id="tenant_1",
    user_id="ann",
    token={"token_id": "t1"},
    tool="shop:pay",
    policies=(AskedPolicy(policy_id="pay"),),
    asked_at=NOW,
    expires_at=NOW,
)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_webhook, "PAUSES", Backoff(first_s=0.0, longest_s=0.0))


@asynccontextmanager
async def running(
    answer: Callable[[httpx.Request], httpx.Response],
) -> AsyncIterator[ApprovalWebhook]:
    def open_http() -> ServiceHttp:
        transport = httpx.MockTransport(answer)
        return ServiceHttp("http://hook.example/x", variable="V", token=None, transport=transport)

    webhook = ApprovalWebhook(
        open_http, KEY, page_url="https://g.example/a/{approval_id}", now=lambda: NOW
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(webhook.run())
        yield webhook
        task.cancel()


async def test_a_message_is_signed_and_repeated_with_its_id() -> None:
    requests: list[httpx.Request] = []
    done = asyncio.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if len(requests) == 1:
            raise httpx.ReadTimeout("late")
        if len(requests) == 2:
            return httpx.Response(503)
        done.set()
        return httpx.Response(204)

    async with running(answer) as webhook:
        webhook.notify("approval.asked", FACTS, {})
        await asyncio.wait_for(done.wait(), BOUND_S)
    (message_id,) = {it.headers["webhook-id"] for it in requests}
    body = requests[-1].content
    timestamp = requests[-1].headers["webhook-timestamp"]
    assert timestamp == str(int(NOW.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    mac = base64.b64encode(hmac.digest(KEY, signed, sha256)).decode()
    assert requests[-1].headers["webhook-signature"] == f"v1,{mac}"
    assert json.loads(body) == {
        "type": "approval.asked",
        "timestamp": "2026-11-30T12:00:00+00:00",
        "data": {
            "approval_id": "a1",
            "tenant_id": "tenant_1",
            "user_id": "ann",
            "tool": "shop:pay",
            "policies": [{"policy_id": "pay", "approvers": []}],
            "asked_at": "2026-11-30T12:00:00Z",
            "expires_at": "2026-11-30T12:00:00Z",
            "url": "https://g.example/a/a1",
        },
    }


async def test_a_message_that_fails_is_logged_and_the_next_one_sent() -> None:
    ids: list[str] = []
    done = asyncio.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        ids.append(request.headers["webhook-id"])
        if len(set(ids)) == 2:
            done.set()
            return httpx.Response(200)
        return httpx.Response(500)

    with capture_logs() as logs:
        async with running(answer) as webhook:
            webhook.notify("approval.asked", FACTS, {})
            webhook.notify("approval.decided", FACTS, {"approved": True})
            await asyncio.wait_for(done.wait(), BOUND_S)
    assert ids.count(ids[0]) == approval_webhook.ATTEMPTS
    assert [it["event"] for it in logs] == ["approval.webhook_failed"]


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of Standard Webhooks 1.0."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    found = signature_of(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
