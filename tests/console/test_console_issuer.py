"""Console sign-in at the issuer of the callers' tokens."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.login_pages.page_gateway import ANN, KEYS, PUBLIC_URL, write_keys
from tests.support.bounds import BOUND_S
from tests.support.browser import next_address
from tests.support.console_browser import ConsoleBrowser, Html, running_console
from tests.support.oauth_issuer import Issuer, running_issuer
from tests.support.plain_http import NO_TLS
from tests.support.signing import AUDIENCE
from tests.support.tokens import jwt_settings, signed_token

ORIGIN = "https://gateway.example"
COOKIE = "__Host-mcp-console"
TRIP = f"{COOKIE}-sign-in"
SERVERS_PAGE = "/console/servers"


@dataclass
class IssuerConsole:
    """A console whose users sign in at ``issuer``."""

    browser: ConsoleBrowser
    issuer: Issuer

    async def to_issuer(self) -> str:
        response = await self.browser.post("/console/issuer", {}, origin=ORIGIN)
        assert response.status_code == 200, response.text
        return next_address(response)

    async def at_issuer(self, address: str) -> str:
        """Sign in at the issuer; return the redirect path at the gateway."""
        async with httpx.AsyncClient(timeout=BOUND_S, verify=NO_TLS) as http:
            response = await http.get(address)
        location = response.headers["location"]
        assert location.startswith(f"{PUBLIC_URL}/console/callback?")
        parts = urlsplit(location)
        return f"{parts.path.removeprefix('/tools')}?{parts.query}"

    async def sign_in(self) -> httpx.Response:
        return await self.browser.get(await self.at_issuer(await self.to_issuer()))


@asynccontextmanager
async def issuer_console(**claims: object) -> AsyncIterator[IssuerConsole]:
    async with running_issuer() as issuer:
        issuer.secrets = {"pages": "s1gn-in"}
        issuer.claims = {**ANN, "aud": AUDIENCE, **claims}
        write_keys()
        async with running_console(
            admin_token=None,
            auth_mode="jwt",
            jwt_issuer=issuer.url,
            jwt_audience=(AUDIENCE,),
            jwt_jwks_file="jwks.json",
            jwt_operator_claim="may",
            public_url=PUBLIC_URL,
            signin_client_id="pages",
            signin_client_secret="s1gn-in",
            credentials_key=KEYS,
        ) as console:
            yield IssuerConsole(console.browser, issuer)


async def test_a_user_signs_in_at_the_issuer_and_sees_the_pages_of_their_rights() -> None:
    async with issuer_console(may=["documents"]) as console:
        page = await console.sign_in()
        assert next_address(page) == "/tools/console/servers"
        assert TRIP not in console.browser.cookies
        shown = await console.browser.open(SERVERS_PAGE)
        assert "Signed in as ann, tenant acme" in shown.text
        assert "/tools/console/documents" in shown.links
        assert "/tools/console/calls" not in shown.links


async def test_users_without_rights_can_run_tools_as_themselves() -> None:
    async with issuer_console() as console:
        await console.sign_in()
        shown = await console.browser.open(SERVERS_PAGE)
        assert "/tools/console/try" in shown.links
        assert "/tools/console/tokens" not in shown.links


async def test_a_pasted_jwt_signs_in_with_the_rights_in_its_claim() -> None:
    async with running_console(admin_token=None, **jwt_settings()) as console:
        assert console.service.app.state.console.open_address("127.0.0.1", 8082) is None
        for may, is_shown in (([OperatorRight.AUDIT], True), ([], False)):
            browser = console.new_browser()
            await browser.sign_in(signed_token(tenant="acme", user="ann", may=may))
            shown = await browser.open(SERVERS_PAGE)
            assert "Signed in as ann, tenant acme" in shown.text
            assert ("/console/calls" in shown.links) == is_shown
            assert "/console/try" in shown.links


async def test_the_session_cookie_is_strict_and_the_sign_in_cookie_is_not() -> None:
    async with issuer_console() as console:
        begun = await console.browser.post("/console/issuer", {}, origin=ORIGIN)
        (trip,) = begun.headers.get_list("set-cookie")
        assert trip.startswith(f"{TRIP}=")
        assert {"SameSite=Lax", "Secure", "HttpOnly"} <= {it.strip() for it in trip.split(";")}
        page = await console.browser.get(await console.at_issuer(next_address(begun)))
        kept = [it for it in page.headers.get_list("set-cookie") if it.startswith(f"{COOKIE}=")]
        assert all("SameSite=Strict" in it and "Secure" in it for it in kept)
        assert len(kept) == 1


async def test_a_link_checker_does_not_use_up_the_sign_in() -> None:
    async with issuer_console() as console:
        callback = await console.at_issuer(await console.to_issuer())
        cookies = "; ".join(f"{name}={it}" for name, it in console.browser.cookies.items())
        checked = await console.browser.http.head(callback, headers={"cookie": cookies})
        assert (checked.status_code, "set-cookie" in checked.headers) == (405, False)
        assert "You are signed in" in (await console.browser.get(callback)).text


async def test_started_sign_ins_cause_no_further_requests_to_the_issuer() -> None:
    async with issuer_console() as console:
        for _ in range(20):
            await console.to_issuer()
        requested = len(console.issuer.requests)
        assert (await console.sign_in()).status_code == 200
    assert requested <= 2


async def test_an_answer_from_another_browser_does_not_sign_in() -> None:
    async with issuer_console() as console:
        callback = await console.at_issuer(await console.to_issuer())
        victim = ConsoleBrowser(console.browser.http)
        response = await victim.get(callback)
        assert (response.status_code, COOKIE in victim.cookies) == (403, False)
        assert "another browser" in Html(response.text).text


@pytest.mark.parametrize("change", ["state=x", "error=access_denied", ""])
async def test_an_answer_to_another_sign_in_does_not_sign_in(change: str) -> None:
    async with issuer_console() as console:
        callback = await console.at_issuer(await console.to_issuer())
        query = callback.partition("?")[2]
        state = next(part for part in query.split("&") if part.startswith("state="))
        sent = change if not change.startswith("error") else f"{change}&{state}"
        response = await console.browser.get(f"/console/callback?{sent}")
        assert (response.status_code, COOKIE in console.browser.cookies) == (403, False)


async def test_the_sign_in_form_names_the_issuer_and_needs_our_origin() -> None:
    async with issuer_console() as console:
        page = Html((await console.browser.get("/console/sign-in")).text)
        assert console.issuer.url in page.text
        response = await console.browser.post("/console/issuer", {}, origin="https://evil.example")
        assert (response.status_code, TRIP in console.browser.cookies) == (403, False)


@pytest.mark.parametrize(
    ("wanted", "path"),
    [("/console/try?tool=a", "/console/try?tool=a"), ("//evil.example", "/console/servers")],
)
async def test_a_sign_in_at_the_issuer_returns_to_the_requested_page(
    wanted: str, path: str
) -> None:
    async with issuer_console() as console:
        begun = await console.browser.post("/console/issuer", {"wanted": wanted}, origin=ORIGIN)
        page = await console.browser.get(await console.at_issuer(next_address(begun)))
        assert next_address(page) == f"/tools{path}"
        assert not [it for it in console.browser.cookies if "wanted" in it]
        console.browser.cookies["__Host-mcp-console-wanted"] = "Ly9ldmlsLmV4YW1wbGU"
        planted = await console.sign_in()
        assert next_address(planted) == "/tools/console/servers"
