"""Opens the approvals of calls; ciphers and Redis are slow to import."""

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import structlog
from anyio.abc import AsyncResource

from mcp_tools_proxy.app.logins import OpenLogins, open_sign_in_store
from mcp_tools_proxy.app.optional import Lazy
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import secret_keys, variable, webhook_key
from mcp_tools_proxy.telemetry.audit.audit_trail import AuditTrail

if TYPE_CHECKING:
    from mcp_tools_proxy.documents.service_http import ServiceHttp
    from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk
    from mcp_tools_proxy.gateway.approval_records import ApprovalRecords
    from mcp_tools_proxy.gateway.approval_webhook import ApprovalWebhook
    from mcp_tools_proxy.gateway.approvals import Approvals
    from mcp_tools_proxy.gateway.asked_calls import AskedFacts

log = structlog.get_logger()


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


class OpenApprovals(AsyncResource):
    """The approvals for calls and for people, over the same records."""

    def __init__(
        self, records: "ApprovalRecords", calls: "Approvals", desk: "ApprovalDesk"
    ) -> None:
        self.calls = calls
        self.desk = desk
        self.records = records

    async def aclose(self) -> None:
        """Close the store."""
        await self.records.aclose()


def build_approvals(
    settings: Settings,
    logins: OpenLogins,
    audit: AuditTrail,
    webhook: "ApprovalWebhook | None",
    *,
    server_entry: Callable[[str], object],
) -> Lazy[OpenApprovals]:
    """Build the approvals, opened on first use."""

    waits_s, valid_s = settings.approvals_expire_s, settings.approvals_valid_s

    def build() -> OpenApprovals:
        from mcp_tools_proxy.gateway.approval_desk import ApprovalDesk  # noqa: PLC0415
        from mcp_tools_proxy.gateway.approval_records import ApprovalRecords  # noqa: PLC0415
        from mcp_tools_proxy.gateway.approvals import Approvals, ApprovalTimes  # noqa: PLC0415
        from mcp_tools_proxy.storage.logins.sign_in_store import MemorySignIns  # noqa: PLC0415

        keys = secret_keys(settings.state_key)
        if keys:
            records = ApprovalRecords(open_sign_in_store(settings, logins), keys)
        else:
            if settings.state_url is not None:
                log.warning(
                    "approvals.in_memory",
                    reason=f"{variable('state_key')} is not set, so approvals are known to this "
                    "replica only and end when it stops",
                )
            records = ApprovalRecords(MemorySignIns(), [secrets.token_bytes(32)])
        times = ApprovalTimes(waits_s=waits_s, valid_s=valid_s)
        notify = _no_notification if webhook is None else webhook.notify
        calls = Approvals(
            records, times, server_entry=server_entry, recorder=audit, notify=notify, now=_now
        )
        desk = ApprovalDesk(
            records,
            times,
            recorder=audit,
            check_audit=audit.check_available,
            notify=notify,
            now=_now,
        )
        return OpenApprovals(records, calls, desk)

    return Lazy(build)


def build_webhook(settings: Settings) -> "ApprovalWebhook | None":
    """Build the webhook of approvals, if configured. Raises ValueError for an unusable URL."""
    url, secret = settings.approvals_webhook, settings.approvals_webhook_secret
    if url is None or secret is None:
        return None
    from mcp_tools_proxy.documents.service_http import parse_url  # noqa: PLC0415
    from mcp_tools_proxy.gateway.approval_webhook import ApprovalWebhook  # noqa: PLC0415

    parse_url(url.get_secret_value(), variable("approvals_webhook"))  # opened at the first message
    base = settings.public_url
    page_url = None
    if base is not None and settings.console:
        page_url = f"{base.rstrip('/')}/console/approvals/{{approval_id}}"
    return ApprovalWebhook(
        partial(_open_http, url.get_secret_value()),
        webhook_key(secret),
        page_url=page_url,
        now=_now,
    )


def _open_http(url: str) -> "ServiceHttp":
    from mcp_tools_proxy.documents.service_http import ServiceHttp  # noqa: PLC0415

    return ServiceHttp(url, variable=variable("approvals_webhook"), token=None, transport=None)


def _no_notification(_event: str, _facts: "AskedFacts", _more: Mapping[str, object]) -> None:
    """Do nothing (without a webhook)."""
