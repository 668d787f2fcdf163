"""Logins of a server in the console: of the deployment, of a tenant, and ending one."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.storage.logins.file_logins import FileLogins
from tests.support.configuration import Config, make_preset
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.signing import ISSUER
from tests.support.stored_logins import ACME, ANA, BINDING, DEPLOYMENT, KEY, SEALER, make_login
from tests.support.tokens import jwt_settings, signed_token

LOGINS = "/console/servers/wiki?tab=logins"
WIKI = {"url": "http://127.0.0.1:9/mcp"}
MARKUP = "<img src=x onerror=alert(1)>"
CONFIG = Config(servers={"wiki": WIKI, "other": WIKI}, presets=[make_preset()])


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleService]:
    store = FileLogins(tmp_path / "logins")
    ana = replace(ANA, user_issuer=ISSUER)
    odd = replace(ana, user_id=MARKUP)
    for owner in (DEPLOYMENT, ACME, ana, odd, replace(ACME, server_id="other", tenant_id="globex")):
        await store.put(owner, BINDING, SEALER.seal(make_login(owner)))
    settings = {"credentials_key": (KEY.decode(),), "logins_dir": tmp_path / "logins"}
    async with running_console(config=CONFIG, **jwt_settings(), **settings) as started:
        yield started


async def signed_in(console: ConsoleService, **claims: Any) -> ConsoleBrowser:
    browser = console.new_browser()
    await browser.sign_in(signed_token(**{"may": [OperatorRight.LOGINS], **claims}))
    return browser


async def end(browser: ConsoleBrowser, page: Html, place: int = 0) -> Html:
    forms = [it.fields for it in page.forms if it.fields.get("action") == "end_login"]
    response = await browser.post("/console/servers/wiki", forms[place])
    assert response.status_code == 303
    return await browser.open(response.headers["location"])


async def test_the_login_of_the_deployment_is_shown_and_can_be_ended(
    console: ConsoleService,
) -> None:
    browser = await signed_in(console, tenant=None)
    page = await browser.open(LOGINS)
    assert "shared by all callers" in page.text
    assert "ana" not in page.text
    assert "Login ended" in (await end(browser, page)).text
    assert "No logins" in (await browser.open(LOGINS)).text


async def test_logins_of_a_tenant_are_found_by_its_name(console: ConsoleService) -> None:
    browser = await signed_in(console, tenant=None)
    page = await browser.open(f"{LOGINS}&tenant_id=acme")
    assert [word in page.text for word in ("tenant acme", "user ana", "globex")] == [
        True,
        True,
        False,
    ]
    page = await browser.open(f"{LOGINS}&tenant_id=acme&user_id=ana")
    assert [word in page.text for word in ("user ana", MARKUP)] == [True, False]


async def test_a_login_of_an_unusual_user_is_escaped_and_can_be_ended(
    console: ConsoleService,
) -> None:
    browser = await signed_in(console, tenant=None)
    path = f"{LOGINS}&tenant_id=acme"
    assert "<img src=x" not in (await browser.get(path)).text
    for _ in range(3):
        await end(browser, await browser.open(path))
    assert "Neither this tenant nor its users are signed in" in (await browser.open(path)).text


async def test_a_tenants_operator_sees_only_its_logins(console: ConsoleService) -> None:
    browser = await signed_in(console, tenant="globex")
    page = await browser.open(f"{LOGINS}&tenant_id=acme")
    assert "ana" not in page.text
    csrf = page.form("/console/sign-out").fields["csrf"]
    forged = {"csrf": csrf, "action": "end_login", "for": "tenant", "tenant_id": "acme"}
    await browser.post("/console/servers/wiki", forged)
    unbound = await signed_in(console, tenant=None)
    assert "tenant acme" in (await unbound.open(f"{LOGINS}&tenant_id=acme")).text


async def test_logins_need_the_right(console: ConsoleService) -> None:
    browser = await signed_in(console, tenant=None, may=[OperatorRight.CONFIG])
    assert "the deployment" not in (await browser.open(LOGINS)).text


async def test_without_stored_logins_the_page_names_the_command() -> None:
    async with running_console(config=CONFIG) as console:
        page = await console.browser.open(LOGINS)
        assert "mcp-tools-proxy logins" in page.text


async def test_a_server_that_waits_for_a_login_shows_the_command(tmp_path: Path) -> None:
    entry = {**WIKI, "auth": {"type": "oauth"}}
    config = Config(servers={"wiki": entry}, presets=[make_preset()])
    settings = {"credentials_key": (KEY.decode(),), "logins_dir": tmp_path / "logins"}
    async with running_console(config=config, **settings) as console:
        page = await console.browser.open("/console/servers/wiki")
        assert "login required" in page.text
        assert "mcp-tools-proxy login wiki" in page.text
