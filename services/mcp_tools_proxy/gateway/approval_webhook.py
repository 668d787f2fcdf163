"""Notifies an external service of approvals, with signed requests (Standard Webhooks 1.0).

Requests have no arguments of calls.
"""

import asyncio
import base64
import hmac
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

import structlog
from pydantic_core import to_json

from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.gateway.asked_calls import AskedFacts
from mcp_tools_proxy.system.backoff import Backoff

if TYPE_CHECKING:
    import httpx

    from mcp_tools_proxy.documents.service_http import ServiceHttp

MAX_WAITING = 1_000
"""Maximum number of messages that wait; later ones are dropped, and the log says so."""

ATTEMPTS = 4
TIMEOUT_S = 10.0
PAUSES = Backoff(first_s=1.0, longest_s=30.0)

_OWN_FACTS = {"token", "is_stand_in", "user_is_unproved", "operator_id"}

log = structlog.get_logger()


def signature_of(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of ``webhook-signature``."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, sha256)).decode()}"


class ApprovalWebhook:
    """Sends messages one after the other while ``run`` runs; no call waits for them.

    ``open_http`` opens the client of the service. ``page_url`` is the address of an approval in the
    console, with the placeholder ``{approval_id}``.
    """

    def __init__(
        self,
        open_http: "Callable[[], ServiceHttp]",
        key: bytes,
        *,
        page_url: str | None,
        now: Callable[[], datetime],
    ) -> None:
        self._open_http = open_http
        self._key = key
        self._page_url = page_url
        self._now = now
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._has_some = asyncio.Event()

    def notify(self, event: str, facts: AskedFacts, more: Mapping[str, object]) -> None:
        """Send a message about an approval soon, with ``more`` facts."""
        if len(self._waiting) >= MAX_WAITING:
            log.warning("approval.webhook_dropped", approval_id=facts.approval_id)
            return
        page = self._page_url
        data = {
            **facts.model_dump(mode="json", exclude=_OWN_FACTS, exclude_none=True),
            **more,
            "url": None if page is None else page.replace("{approval_id}", facts.approval_id),
        }
        timestamp = self._now().isoformat(timespec="seconds")
        message = {"type": event, "timestamp": timestamp, "data": without_none(data)}
        self._waiting.append((f"msg_{secrets.token_hex(16)}", to_json(message)))
        self._has_some.set()

    async def run(self) -> None:
        """Send messages until cancelled."""
        http: ServiceHttp | None = None
        try:
            while True:
                await self._has_some.wait()
                if http is None:
                    http = await asyncio.to_thread(self._open_http)
                while self._waiting:
                    await self._send(http, *self._waiting.popleft())
                self._has_some.clear()
        finally:
            if http is not None:
                await http.aclose()

    async def _send(self, http: "ServiceHttp", message_id: str, body: bytes) -> None:
        """Send a message, repeated with the same id if the service fails."""
        reason = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSES.pause_s(attempt - 1))
            timestamp = int(self._now().timestamp())
            headers = {
                "content-type": "application/json",
                "webhook-id": message_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature_of(self._key, message_id, timestamp, body),
            }
            try:
                status = await http.post(body, _status_of, timeout_s=TIMEOUT_S, headers=headers)
            except Exception as error:  # noqa: BLE001 - the next message is sent in any case
                reason = type(error).__name__
                continue
            if status // 100 == 2:
                return
            reason = f"status {status}"
        log.warning("approval.webhook_failed", message_id=message_id, reason=reason)


async def _status_of(response: "httpx.Response") -> int:
    return response.status_code
