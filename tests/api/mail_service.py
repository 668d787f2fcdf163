"""The service with a server ``shop`` that reads an inbox and sends e-mail, for runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import CONFIG_DIR, Service, running

NO_SEND = """
@id("no-send")
@message("Ask the user for the address.")
forbid(principal, action in Action::"label:sends", resource) when {
  context has run && context.run.seen.contains("label:reads_untrusted")
};
"""
LABELS = {
    "shop:read_inbox": {"labels": ["reads_private", "reads_untrusted"]},
    "shop:send_email": {"labels": ["sends"]},
    "shop:is_error": {"labels": ["writes"]},
}


def write_policies(*policies: str) -> None:
    """Write policies to the configuration folder, one in each file."""
    folder = CONFIG_DIR / "policies"
    folder.mkdir(parents=True)
    for number, text in enumerate(policies):
        (folder / f"{number}.cedar").write_text(text)


@asynccontextmanager
async def mail_service(*policies: str, **settings: Any) -> AsyncIterator[Service]:
    names = ("read_inbox", "send_email")
    tools = [{"name": it, "inputSchema": {"type": "object"}} for it in names]
    async with running_raw(extra={"tools": tools}) as server:
        preset = make_preset(tools=[("shop", it) for it in (*names, "is_error", "echo")])
        entry = {"type": "streamable-http", "url": server.url}
        config = Config(servers={"shop": entry}, presets=[preset], more={"defaultPresetId": "work"})
        CONFIG_DIR.mkdir(parents=True, exist_ok=True)
        write_json(CONFIG_DIR / "labels.json", {"tools": LABELS})
        if policies:
            write_policies(*policies)
        async with running(config=config, **settings) as service:
            yield service


def a_run() -> Json:
    return {"id": uuid4().hex}
