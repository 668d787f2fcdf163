"""A user signs in to a server by the gateway's pages, and what nobody else can do with that."""

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
    """Return whether a user has a login, as the list of her own says."""
    token = gateway.token(**claims)
    answer = await gateway.served.http.get(LOGINS, headers=bearer(token))
    return bool(answer.json()["logins"])


async def test_a_user_signs_in_and_her_calls_use_her_login() -> None:
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


async def test_the_page_names_what_is_connected_to_what_and_where_it_leads() -> None:
    async with page_gateway(scope="read write") as gateway:
        page = await gateway.browser().open(await gateway.address())
        text = html.unescape(re.sub(r"<[^>]+>", " ", page.text))
        shown = ["s", gateway.server.url, "ann (tenant acme)", "read, write", gateway.issuer.url]
        assert [it for it in shown if it not in text] == []
        assert not await is_connected(gateway)


async def test_texts_of_others_are_no_html_of_a_page() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address(sub="<b>ann</b>")
        gateway.sign_in_as(sub="<b>ann</b>")
        page = await gateway.browser().open(url)
    assert "&lt;b&gt;ann&lt;/b&gt;" in page.text
    assert "<b>" not in page.text


async def test_no_page_is_kept_framed_or_has_script() -> None:
    async with page_gateway() as gateway:
        browser, url = gateway.browser(), await gateway.address()
        await gateway.sign_in(browser, url)
        pages = [
            it for it in browser.answers if it.headers.get("content-type", "")[:9] == "text/html"
        ]
        forms = [re.findall(r"form-action ([^;]+);", it.headers[POLICY]) for it in pages]
        assert forms == [["'self'"], ["'none'"], ["'none'"]]  # its button, the way on, the end
        for page in pages:
            policy = page.headers[POLICY]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert page.headers["cache-control"] == "no-store"
            assert page.headers["referrer-policy"] == "no-referrer"
            assert "<script" not in page.text


async def test_asked_again_the_address_is_the_same_and_each_identity_has_its_own() -> None:
    async with page_gateway() as gateway:
        first, again, bob = (
            await gateway.address(),
            await gateway.address(),
            await gateway.address(sub="bob"),
        )
        other_tenant = await gateway.address(tenant_id="globex")
    assert first == again
    assert len({first, bob, other_tenant}) == 3


async def test_one_replica_alone_is_said_where_the_address_is_kept_in_memory() -> None:
    async with page_gateway() as gateway:
        error = (await gateway.call())["error"]
    assert error["details"]["replicas"] == 1
    assert "MCP_PROXY_STATE_URL" in error["message"]


@pytest.mark.parametrize(
    "claims",
    [{"sub": "bob"}, {"tenant_id": "globex"}, {"aud": "another"}, {"sub": ...}],
    ids=["user", "tenant", "audience", "no user"],
)
async def test_an_address_is_of_no_use_to_anybody_else(claims: dict[str, object]) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.sign_in_as(**claims)
        page = await gateway.browser().open(url)
        assert page.status_code in (403, 502)
        assert "<form" not in page.text
        gateway.sign_in_as()
        await gateway.sign_in(gateway.browser(), url)  # nothing of hers is used up
        assert await is_connected(gateway)
        assert not await is_connected(gateway, sub="bob")


@pytest.mark.parametrize(("leeway_s", "status"), [(60, 200), (10, 502)])
async def test_a_user_is_known_by_a_token_of_a_clock_that_is_off_as_callers_are(
    leeway_s: int, status: int
) -> None:
    async with page_gateway(jwt_leeway_s=leeway_s) as gateway:
        url, pages = await gateway.address(), []
        for claim, seconds in (("iat", 55), ("nbf", 55), ("exp", -55)):
            gateway.sign_in_as(**{claim: int(now()) + seconds})
            pages.append(await gateway.browser().open(url))
    assert [it.status_code for it in pages] == [status] * 3
    assert ["<form" in it.text for it in pages] == [status == 200] * 3


async def test_a_state_of_another_browser_is_refused_and_used_up() -> None:
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


async def test_an_answer_of_the_servers_issuer_needs_the_browser_that_began() -> None:
    async with page_gateway() as gateway:
        ann, mallory = gateway.browser(), gateway.browser()
        page = await ann.open(await gateway.address())
        going = await ann.press(page)
        back = await Browser("", "").send("GET", next_address(going))
        assert (await mallory.open(back.headers["location"])).status_code == 403
        assert (await ann.open(back.headers["location"])).status_code == 403
        assert not await is_connected(gateway)


async def test_another_state_uses_up_that_of_the_cookie_too() -> None:
    async with page_gateway() as gateway:
        ann = gateway.browser()
        sent = await ann.open(await gateway.address(), stop_at=gateway.own.url)
        cookies = dict(ann.cookies)
        assert (await ann.open(f"{CALLBACK}?code=x&state=another")).status_code == 403
        ann.cookies = cookies
        assert (await ann.open(sent.headers["location"])).status_code == 403


async def test_code_state_cookie_and_nonce_are_each_good_once() -> None:
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
        assert (await ann.press(page)).status_code == 403  # and used up


async def test_a_form_without_the_cookie_is_refused() -> None:
    async with page_gateway() as gateway:
        ann, mallory = gateway.browser(), gateway.browser()
        page = await ann.open(await gateway.address())
        assert (await mallory.press(page)).status_code == 403


async def test_the_form_of_one_address_is_of_no_use_at_another() -> None:
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


async def test_an_address_that_there_is_not_says_so() -> None:
    async with page_gateway() as gateway:
        answer = await gateway.browser().open(f"{PUBLIC_URL}/oauth/start/unknown")
    assert (answer.status_code, "expired" in answer.text) == (404, True)


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE"])
async def test_other_methods_use_up_nothing(method: str) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        answer = await gateway.browser().send(method, url)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_an_issuer_that_is_down_is_said_and_the_address_stays_good() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.own.instead = lambda _: web.Response(status=503)
        page = await gateway.browser().open(url)
        assert page.status_code == 502
        gateway.own.instead = lambda _: None
        await gateway.sign_in(gateway.browser(), url)
        assert await is_connected(gateway)


@pytest.mark.parametrize("lie", [{"iss": "https://evil.example"}, {"iss": None}, {"code": None}])
async def test_an_issuer_that_answers_for_another_connects_nothing(
    lie: dict[str, str | None],
) -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.issuer.answer = dict(lie)
        closing = await gateway.sign_in(gateway.browser(), url)
        assert "<h1>Not connected" in closing.text
        assert [it for it in gateway.issuer.token_requests if "code" in it] == []
        assert not await is_connected(gateway)


async def test_a_sign_in_that_the_user_refuses_ends_at_the_closing_page() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.issuer.answer = {"error": "access_denied", "code": None}
        browser = gateway.browser()
        closing = await gateway.sign_in(browser, url)
        assert "<h1>Not connected" in closing.text
        assert "No recent sign-in" in (await browser.open(DONE)).text
        assert COOKIE not in browser.cookies


async def test_one_tenant_has_at_most_half_of_the_pending_sign_ins() -> None:
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


async def test_who_opens_an_address_over_and_over_uses_up_a_few_steps() -> None:
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


async def test_a_document_that_no_issuer_can_fetch_is_not_used() -> None:
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
