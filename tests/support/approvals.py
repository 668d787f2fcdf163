"""A gateway with a policy that stops calls until a person approves them, and such people."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.configuration import Config, Json, make_preset, write_json
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.service import CONFIG_DIR, EXECUTE, Envelope
from tests.support.tokens import bearer, file_token, token_settings

PAGE = "/console/approvals"
APPROVE = [OperatorRight.APPROVE]
PAY = """
@id("pay") @message("A second person has to agree.") @mode("approve") @run("optional")
forbid(principal, action == Action::"shop:pay", resource);
"""
LABELS = {
    "shop:pay": {"labels": ["sends"], "targets": ["to"]},
    "shop:echo": {"labels": ["reads_untrusted"]},
}
TOOL = {
    "name": "pay",
    "description": "Pays.",
    "inputSchema": {
        "type": "object",
        "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}},
    },
}
ARGUMENTS = {"to": "bob", "cents": 500}


@dataclass
class Shop:
    """The gateway, its server, and the token of a user's application."""

    console: ConsoleService
    server: RawServer
    token: str

    @property
    def made(self) -> int:
        """Calls of the tool that the server received."""
        return self.server.script.calls["pay"]

    async def call(
        self,
        arguments: Mapping[str, object] = ARGUMENTS,
        *,
        token: str = "",
        tool: str = "shop:pay",
        **more: Any,
    ) -> Envelope:
        response = await self.console.service.http.post(
            EXECUTE,
            json={"tool_name": tool, "arguments": arguments, **more},
            headers=bearer(token or self.token),
        )
        found: Envelope = response.json()
        return found

    async def code(self, arguments: Mapping[str, object] = ARGUMENTS, **more: Any) -> str:
        found = await self.call(arguments, **more)
        return "OK" if found["status"] == "ok" else str(found["error"]["code"])

    async def asked(self, arguments: Mapping[str, object] = ARGUMENTS, **more: Any) -> str:
        """Make a call that waits; return the id of its approval."""
        found = await self.call(arguments, **more)
        assert found["error"]["code"] == "APPROVAL_PENDING", found
        return str(found["error"]["details"]["approval_id"])

    async def token_of(self, **holder: Any) -> str:
        token = file_token(**holder)
        assert self.console.service.gateway.tokens is not None
        await self.console.service.gateway.tokens.load()
        return token

    async def person(self, user: str = "boss", **holder: Any) -> ConsoleBrowser:
        """Sign in with the token of a person who may approve calls and makes none."""
        given = {"user": user, "may": APPROVE, "executes": False, **holder}
        browser = self.console.new_browser()
        assert (await browser.sign_in(await self.token_of(**given))).status_code == 200
        return browser


async def decide(browser: ConsoleBrowser, approval_id: str, decision: str, note: str = "") -> Html:
    """Press a button on the page of a call, and return the next page."""
    response = await browser.press(f"{PAGE}/{approval_id}", {"decision": decision, "note": note})
    assert response.status_code == 200, Html(response.text).text
    return Html(response.text)


async def approved(shop: Shop, **more: Any) -> str:
    """Ask for a call and have it approved; return the id of its approval."""
    approval_id = await shop.asked(**more)
    await decide(await shop.person(), approval_id, "approve")
    return approval_id


def write_policies(*policies: str, labels: Mapping[str, Json] = LABELS) -> None:
    (CONFIG_DIR / "policies").mkdir(parents=True, exist_ok=True)
    write_json(CONFIG_DIR / "labels.json", {"tools": dict(labels)})
    for number, text in enumerate(policies):
        (CONFIG_DIR / "policies" / f"{number}.cedar").write_text(text)


def config_of(server: RawServer, **more: object) -> Config:
    preset = make_preset(tools=[("shop", it) for it in ("pay", "echo", "crash_safe", "hold")])
    entry = {"type": "streamable-http", "url": server.url}
    servers: dict[str, Json] = {"shop": {**entry, **more}}
    return Config(servers=servers, presets=[preset], more={"defaultPresetId": "work"})


@asynccontextmanager
async def running_shop(
    *policies: str, server: RawServer | None = None, **settings: Any
) -> AsyncIterator[Shop]:
    """Start a gateway; replicas have the same ``server``."""
    async with AsyncExitStack() as stack:
        if server is None:
            server = await stack.enter_async_context(running_raw(extra={"tools": [TOOL]}))
        write_policies(*(policies or (PAY,)))
        options = {**token_settings(), "config": config_of(server), **settings}
        if options["auth_mode"] != "token":
            options.pop("tokens_file")
        console = await stack.enter_async_context(running_console(**options))
        shop = Shop(console, server, "")
        if options["auth_mode"] == "token":
            shop.token = await shop.token_of(user="ann")
        yield shop
