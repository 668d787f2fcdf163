"""A user signs in to a server through the gateway's pages, and attacks on that."""

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.logins import LoginOwner
from mcp_tools_proxy.domain.server import LoginFor
from mcp_tools_proxy.downstream.oauth.session_tokens import now
from mcp_tools_proxy.storage.logins.sign_in_store import STEPS_PER_ADDRESS
from tests.login_pages.page_gateway import (
    LOGINS,
    PUBLIC_URL,
    PageGateway,
    code,
    page_gateway,
    sent_token,
)
from tests.support.browser import COOKIE, Browser, form_of, next_address
from tests.support.tokens import bearer

CALLBACK = f"{PUBLIC_URL}/oauth/callback"
POLICY = "content-security-policy"
DONE = f"{PUBLIC_URL}/oauth/done"


async def is_connected(gateway: PageGateway, **claims: object) -> bool:
    token = gateway.token(**claims)
    answer = await gateway.served.http.get(LOGINS, headers=bearer(token))
    return bool(answer.json()["logins"])


async def test_calls_of_a_signed_in_user_use_their_login() -> None:
    async with page_gateway(scope="read") as gateway:
        url = await gateway.address()
        assert url.startswith(f"{PUBLIC_URL}/oauth/start/")
        closing = await gateway.sign_in(gateway.browser(), url)
        assert (closing.status_code, "<h1>Connected" in closing.text) == (200, True), closing.text
        issued = gateway.issuer.find(f"Bearer {sent_token(await gateway.call())}")
        assert issued is not None
        assert issued.form["redirect_uri"] == CALLBACK
        assert code(await gateway.call(sub="bob")) == "LOGIN_REQUIRED"


async def test_a_login_over_the_quota_of_the_tenant_is_not_stored() -> None:
    async with page_gateway(quota_logins=1) as gateway:
        closing = await gateway.sign_in(gateway.browser(), await gateway.address())
        assert closing.status_code == 200, closing.text
        url = await gateway.address(sub="bob")
        gateway.sign_in_as(sub="bob")
        refused = await gateway.sign_in(gateway.browser(), url)
        assert "limit of 1" in refused.text
        assert "<h1>Connected" not in refused.text
        assert code(await gateway.call(sub="bob")) == "LOGIN_REQUIRED"
        assert code(await gateway.call()) == "OK"


async def test_the_page_names_both_services_and_the_destination() -> None:
    async with page_gateway(scope="read write") as gateway:
        page = await gateway.browser().open(await gateway.address())
        text = html.unescape(re.sub(r"<[^>]+>", " ", page.text))
        shown = ["s", gateway.server.url, "ann (tenant acme)", "read, write", gateway.issuer.url]
        assert [it for it in shown if it not in text] == []
        assert not await is_connected(gateway)


async def test_foreign_texts_are_escaped_on_pages() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address(sub="<b>ann</b>")
        gateway.sign_in_as(sub="<b>ann</b>")
        page = await gateway.browser().open(url)
    assert "&lt;b&gt;ann&lt;/b&gt;" in page.text
    assert "<b>" not in page.text


async def test_pages_cannot_be_cached_framed_or_run_scripts() -> None:
    async with page_gateway() as gateway:
        browser, url = gateway.browser(), await gateway.address()
        await gateway.sign_in(browser, url)
        pages = [
            it for it in browser.answers if it.headers.get("content-type", "")[:9] == "text/html"
        ]
        forms = [re.findall(r"form-action ([^;]+);", it.headers[POLICY]) for it in pages]
        assert forms == [["'self'"], ["'none'"], ["'none'"]]  # its button, the redirect, the end
        for page in pages:
            policy = page.headers[POLICY]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert page.headers["cache-control"] == "no-store"
            assert page.headers["referrer-policy"] == "no-referrer"
            assert "<script" not in page.text


async def test_repeated_calls_have_the_same_address_and_each_identity_has_its_own() -> None:
    async with page_gateway() as gateway:
        first, again, bob = (
            await gateway.address(),
            await gateway.address(),
            await gateway.address(sub="bob"),
        )
        other_tenant = await gateway.address(tenant_id="globex")
    assert first == again
    assert len({first, bob, other_tenant}) == 3


async def test_the_error_says_that_an_address_in_memory_works_on_one_replica_only() -> None:
    async with page_gateway() as gateway:
        error = (await gateway.call())["error"]
    assert error["details"]["replicas"] == 1
    assert "MCP_PROXY_STATE_URL" in error["message"]


@pytest.mark.parametrize(
    "claims",
    [{"sub": "bob"}, {"tenant_id": "globex"}, {"aud": "another"}, {"sub": ...}],
    ids=["user", "tenant", "audience", "no user"],
)
async def test_an_address_cannot_be_used_by_another_user(claims: dict[str, object]) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.sign_in_as(**claims)
        page = await gateway.browser().open(url)
        assert page.status_code in (403, 502)
        assert "<form" not in page.text
        gateway.sign_in_as()
        await gateway.sign_in(gateway.browser(), url)  # nothing of the user's is consumed
        assert await is_connected(gateway)
        assert not await is_connected(gateway, sub="bob")


@pytest.mark.parametrize(("leeway_s", "status"), [(60, 200), (10, 502)])
async def test_tokens_of_users_have_the_same_clock_leeway_as_those_of_callers(
    leeway_s: int, status: int
) -> None:
    async with page_gateway(jwt_leeway_s=leeway_s) as gateway:
        url, pages = await gateway.address(), []
        for claim, seconds in (("iat", 55), ("nbf", 55), ("exp", -55)):
            gateway.sign_in_as(**{claim: int(now()) + seconds})
            pages.append(await gateway.browser().open(url))
    assert [it.status_code for it in pages] == [status] * 3
    assert ["<form" in it.text for it in pages] == [status == 200] * 3


async def test_a_state_of_another_browser_is_refused_and_consumed() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        ann, mallory = gateway.browser(), gateway.browser()
        sent = await ann.open(url, stop_at=gateway.own.url)
        back = await Browser("", "").send("GET", sent.headers["location"])
        refused = await mallory.open(back.headers["location"])
        assert refused.status_code == 403
        again = await ann.open(back.headers["location"])
        assert again.status_code == 403
        assert gateway.own.token_requests == []


async def test_an_answer_of_the_servers_issuer_needs_the_browser_that_started() -> None:
    async with page_gateway() as gateway:
        ann, mallory = gateway.browser(), gateway.browser()
        page = await ann.open(await gateway.address())
        going = await ann.press(page)
        back = await Browser("", "").send("GET", next_address(going))
        assert (await mallory.open(back.headers["location"])).status_code == 403
        assert (await ann.open(back.headers["location"])).status_code == 403
        assert not await is_connected(gateway)


async def test_a_different_state_also_consumes_the_one_in_the_cookie() -> None:
    async with page_gateway() as gateway:
        ann = gateway.browser()
        sent = await ann.open(await gateway.address(), stop_at=gateway.own.url)
        cookies = dict(ann.cookies)
        assert (await ann.open(f"{CALLBACK}?code=x&state=another")).status_code == 403
        ann.cookies = cookies
        assert (await ann.open(sent.headers["location"])).status_code == 403


async def test_code_state_cookie_and_nonce_are_each_valid_once() -> None:
    async with page_gateway() as gateway:
        url, ann = await gateway.address(), gateway.browser()
        page = await ann.open(url)
        cookies = dict(ann.cookies)
        going = await ann.press(page)
        back = await Browser("", "").send("GET", next_address(going))
        closed = await ann.send("GET", back.headers["location"])
        assert closed.headers["location"] == DONE
        ann.cookies = dict(cookies)
        assert (await ann.send("GET", back.headers["location"])).status_code == 403
        ann.cookies = dict(cookies)
        assert (await ann.press(page)).status_code == 404
        assert (await ann.open(url)).status_code == 404
        codes = [it for it in gateway.issuer.token_requests if "code" in it]
        assert len(codes) == 1


@pytest.mark.parametrize("csrf", ["", "wrong"])
async def test_a_form_of_another_page_is_refused(csrf: str) -> None:
    async with page_gateway() as gateway:
        ann = gateway.browser()
        page = await ann.open(await gateway.address())
        assert (await ann.press(page, csrf=csrf)).status_code == 403
        assert (await ann.press(page)).status_code == 403  # and consumed


async def test_a_form_without_the_cookie_is_refused() -> None:
    async with page_gateway() as gateway:
        ann, mallory = gateway.browser(), gateway.browser()
        page = await ann.open(await gateway.address())
        assert (await mallory.press(page)).status_code == 403


async def test_the_form_of_one_address_is_refused_at_another() -> None:
    async with page_gateway() as gateway:
        ann, bob = gateway.browser(), await gateway.address(sub="bob")
        page = await ann.open(await gateway.address())
        answer = await ann.send("POST", bob, {"csrf": form_of(page).csrf})
        assert answer.status_code == 403


async def test_a_large_form_is_refused() -> None:
    async with page_gateway() as gateway:
        ann = gateway.browser()
        page = await ann.open(await gateway.address())
        assert (await ann.press(page, more="x" * 10_000)).status_code == 403


async def test_an_unknown_address_is_an_error_page() -> None:
    async with page_gateway() as gateway:
        answer = await gateway.browser().open(f"{PUBLIC_URL}/oauth/start/unknown")
    assert (answer.status_code, "expired" in answer.text) == (404, True)


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE"])
async def test_other_methods_consume_nothing(method: str) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        answer = await gateway.browser().send(method, url)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_an_unavailable_issuer_is_reported_and_the_address_stays_valid() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.own.instead = lambda _: web.Response(status=503)
        page = await gateway.browser().open(url)
        assert page.status_code == 502
        gateway.own.instead = lambda _: None
        await gateway.sign_in(gateway.browser(), url)
        assert await is_connected(gateway)


@pytest.mark.parametrize("lie", [{"iss": "https://evil.example"}, {"iss": None}, {"code": None}])
async def test_an_issuer_that_answers_for_another_one_connects_nothing(
    lie: dict[str, str | None],
) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.issuer.answer = dict(lie)
        closing = await gateway.sign_in(gateway.browser(), url)
        assert "<h1>Not connected" in closing.text
        assert [it for it in gateway.issuer.token_requests if "code" in it] == []
        assert not await is_connected(gateway)


async def test_a_sign_in_that_the_user_denies_ends_at_the_closing_page() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.issuer.answer = {"error": "access_denied", "code": None}
        browser = gateway.browser()
        closing = await gateway.sign_in(browser, url)
        assert "<h1>Not connected" in closing.text
        assert "No recent sign-in" in (await browser.open(DONE)).text
        assert COOKIE not in browser.cookies


async def test_one_tenant_can_have_at_most_half_of_the_pending_sign_ins() -> None:
    async with page_gateway() as gateway:
        offers = gateway.served.service.gateway.user_sign_ins.offers
        assert offers is not None
        for number in range(1_000):
            owner = LoginOwner(
                server_id="s",
                login_for=LoginFor.USER,
                tenant_id="acme",
                user_id=f"user-{number}",
                user_issuer=gateway.own.url,
            )
            known = await offers.offer(owner, ())
        answer = await gateway.call(sub="one-more")
        assert code(answer) == "LOGIN_REQUIRED"
        assert "url" not in answer["error"]["details"]
        assert "too many sign-ins" in answer["error"]["message"]
        assert await gateway.address(sub="user-999") == known.url
        assert await gateway.address(tenant_id="globex", sub="bob")


async def test_repeatedly_opening_an_address_is_limited_to_a_few_steps() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        browsers = [gateway.browser() for _ in range(3 * STEPS_PER_ADDRESS)]
        answers = []
        for browser in browsers:
            going = await browser.send("GET", url)
            (state,) = parse_qs(urlsplit(going.headers["location"]).query)["state"]
            answers.append(f"{CALLBACK}?state={state}&error=access_denied&iss={gateway.own.url}")
        statuses = [
            (await browser.send("GET", answer)).status_code
            for browser, answer in zip(browsers, answers, strict=True)
        ]
        assert statuses.count(403) == 2 * STEPS_PER_ADDRESS, statuses
        assert statuses[-1] != 403
        await gateway.sign_in(gateway.browser(), url)
        assert await is_connected(gateway)


async def test_a_wider_login_requests_the_scopes_that_a_call_lacked() -> None:
    async with page_gateway(scope="read") as gateway:
        await gateway.post_login(scopes=["write"])
        url = await gateway.address()
        page = await gateway.browser().open(url)
        assert "write, read" in page.text


async def test_our_client_metadata_document_is_published_and_used() -> None:
    async with page_gateway() as gateway:
        gateway.issuer.metadata["client_id_metadata_document_supported"] = True
        document = await gateway.served.http.get("/oauth/client.json")
        url = f"{PUBLIC_URL}/oauth/client.json"
        assert document.json()["client_id"] == url
        assert document.json()["redirect_uris"] == [CALLBACK]
        ann = gateway.browser()
        going = await ann.press(await ann.open(await gateway.address()))
        query = parse_qs(urlsplit(next_address(going)).query)
        assert query["client_id"] == [url]
        assert gateway.issuer.registered == []


async def test_a_document_that_an_issuer_cannot_fetch_is_not_used() -> None:
    local = "http://127.0.0.1:8000"
    async with page_gateway(public_url=local) as gateway:
        gateway.issuer.metadata["client_id_metadata_document_supported"] = True
        ann = Browser(local, gateway.served.url)
        going = await ann.press(await ann.open(await gateway.address()))
        query = parse_qs(urlsplit(next_address(going)).query)
        (registered,) = gateway.issuer.registered
        assert (query["redirect_uri"], registered["redirect_uris"]) == (
            [f"{local}/oauth/callback"],
            [f"{local}/oauth/callback"],
        )
        assert query["client_id"] != [f"{local}/oauth/client.json"]
