"""Permission to sign in to the console, sessions, and their end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.auth.token_store import add_token, remove_entry
from mcp_tools_proxy.console.sessions import MAX_SESSIONS_EACH
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.captured_logs import capture_logs
from tests.support.console_browser import (
    ADMIN,
    SIGN_IN,
    ConsoleBrowser,
    ConsoleService,
    Html,
    running_console,
)
from tests.support.service import ACTIVE, EXECUTE, SERVERS, eventually, request_of, running
from tests.support.tables import named_row
from tests.support.tokens import token_settings

SERVERS_PAGE = "/console/servers"
SIGN_OUT = "/console/sign-out"
COOKIE = "mcp-console"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console() as started:
        yield started


async def test_the_console_is_off_by_default() -> None:
    async with running(admin_token=ADMIN) as service:
        for path in ("/console", "/console/sign-in", "/console/assets/console.css"):
            assert (await service.http.get(path)).status_code == 404


async def test_users_without_a_session_are_redirected_to_sign_in(console: ConsoleService) -> None:
    browser = console.new_browser()
    response = await browser.get("/", follow=False)
    assert response.headers["location"] == "/console"
    response = await browser.get("/console", follow=False)
    assert (response.status_code, response.headers["location"]) == (303, SIGN_IN)


async def test_the_admin_token_signs_in(console: ConsoleService) -> None:
    page = await console.browser.open(SERVERS_PAGE)
    assert "Signed in as admin token" in page.text


async def test_an_invalid_token_does_not_sign_in(console: ConsoleService) -> None:
    for token in ["wrong", f"{ADMIN}x", "x" * 10_000, "ключ", "\x00"]:
        with named_row(token):
            browser = console.new_browser()
            response = await browser.press(SIGN_IN, {"token": token})
            assert response.status_code == 401
            assert COOKIE not in browser.cookies
            assert token not in response.text or token == "\x00"


async def test_an_empty_field_is_an_error(console: ConsoleService) -> None:
    response = await console.new_browser().press(SIGN_IN, {"token": "  "})
    assert (response.status_code, "Enter a token" in response.text) == (400, True)


async def test_the_cookie_is_host_only_and_unavailable_to_scripts(
    console: ConsoleService,
) -> None:
    response = await console.new_browser().post(SIGN_IN, {"token": ADMIN})
    (cookie,) = [it for it in response.headers.get_list("set-cookie") if COOKIE in it]
    attributes = {part.strip() for part in cookie.split(";")[1:]}
    assert attributes == {"Path=/", "HttpOnly", "SameSite=Strict"}


async def test_over_https_the_cookie_has_the_host_prefix() -> None:
    async with running_console(public_url="https://gateway.example") as console:
        (cookie,) = console.browser.cookies
        assert cookie == f"__Host-{COOKIE}"


async def test_each_sign_in_creates_a_session_and_ends_the_previous_one(
    console: ConsoleService,
) -> None:
    browser = console.browser
    old = browser.cookies[COOKIE]
    await browser.sign_in()
    new = browser.cookies[COOKIE]
    assert new != old
    thief = console.new_browser()
    thief.cookies[COOKIE] = old
    assert (await thief.get(SERVERS_PAGE, follow=False)).status_code == 303


async def test_a_planted_cookie_does_not_become_a_session(console: ConsoleService) -> None:
    victim = console.new_browser()
    victim.cookies[COOKIE] = "planted"
    await victim.sign_in()
    assert victim.cookies[COOKIE] != "planted"
    attacker = console.new_browser()
    attacker.cookies[COOKIE] = "planted"
    assert (await attacker.get(SERVERS_PAGE, follow=False)).status_code == 303


async def test_signing_out_ends_the_session_for_every_copy_of_the_cookie(
    console: ConsoleService,
) -> None:
    thief = console.new_browser()
    thief.cookies |= console.browser.cookies
    response = await console.browser.press(SIGN_OUT, on=SERVERS_PAGE)
    assert "You are signed out" in response.text
    assert COOKIE not in console.browser.cookies
    assert (await thief.get(SERVERS_PAGE, follow=False)).status_code == 303


async def test_signing_out_keeps_data_of_other_applications_on_the_host(
    console: ConsoleService,
) -> None:
    form = (await console.browser.open(SERVERS_PAGE)).form(SIGN_OUT)
    response = await console.browser.post(SIGN_OUT, form.fields)
    assert response.headers["clear-site-data"] == '"cache"'


async def test_the_api_ignores_the_cookie() -> None:
    requests: list[tuple[str, str, dict[str, object] | None]] = [
        ("GET", "/internal/mcp/audit", None),
        ("GET", "/internal/documents", None),
        ("POST", EXECUTE, request_of("read_doc_metadata", {"doc_id": "doc_1"})),
        ("POST", "/internal/mcp/try", request_of("read_doc_metadata", {"doc_id": "doc_1"})),
        ("PUT", ACTIVE, {"preset_id": "work"}),
        ("DELETE", "/internal/mcp/tokens?token_id=t", None),
        ("DELETE", "/internal/documents/content?tenant_id=tenant_1&doc_id=doc_1", None),
        ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ("GET", "/mcp", None),
        ("DELETE", "/mcp", None),
    ]
    async with running_console(**token_settings()) as console:
        cookie = f"{COOKIE}={console.browser.cookies[COOKIE]}"
        shown = await console.service.http.get(SERVERS_PAGE, headers={"cookie": cookie})
        assert shown.status_code == 200
        headers = {"cookie": cookie, "accept": "application/json, text/event-stream"}
        for method, path, body in requests:
            with named_row(method, path):
                answer = await console.service.http.request(
                    method, path, headers=headers, json=body
                )
                assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


async def test_a_form_of_another_site_is_refused(console: ConsoleService) -> None:
    for origin in [None, "null", "https://evil.example", "http://localhost:81"]:
        with named_row(origin):
            page = await console.browser.open(SERVERS_PAGE)
            csrf = page.form(SIGN_OUT).fields["csrf"]
            response = await console.browser.post(SIGN_OUT, {"csrf": csrf}, origin=origin)
            assert response.status_code == 403
            assert (await console.browser.get(SERVERS_PAGE, follow=False)).status_code == 200


async def test_a_form_of_another_site_cannot_sign_in(console: ConsoleService) -> None:
    for origin in [None, "null", "https://evil.example"]:
        with named_row(origin):
            browser = console.new_browser()
            response = await browser.post(SIGN_IN, {"token": ADMIN}, origin=origin)
            assert (response.status_code, COOKIE in browser.cookies) == (403, False)


@pytest.mark.parametrize(
    ("public_url", "origin"),
    [
        ("https://gateway.example:443/tools", "https://gateway.example"),
        ("https://Gateway.Example", "https://gateway.example"),
        ("http://gateway.example:80", "http://gateway.example"),
        ("https://gateway.example:8443", "https://gateway.example:8443"),
        ("https://münchen.example", "https://xn--mnchen-3ya.example"),
        ("https://[2001:DB8:0::1]:443", "https://[2001:db8::1]"),
    ],
)
async def test_forms_are_accepted_with_the_origin_of_a_browser(
    public_url: str, origin: str
) -> None:
    async with running(console=True, admin_token=ADMIN, public_url=public_url) as service:
        browser = ConsoleBrowser(service.http)
        for other in (f"{origin}:444", f"{origin}.evil.example", origin.replace("://", "://x.")):
            foreign = await browser.post(SIGN_IN, {"token": ADMIN}, origin=other, host="x.example")
            assert foreign.status_code == 403, other
        response = await browser.post(SIGN_IN, {"token": ADMIN}, origin=origin)
        assert response.status_code == 303


async def test_a_form_needs_the_csrf_token_of_its_session(console: ConsoleService) -> None:
    other = console.new_browser()
    await other.sign_in()
    foreign = (await other.open(SERVERS_PAGE)).form(SIGN_OUT).fields["csrf"]
    for csrf in ("", "x", foreign, "\udcff"):
        response = await console.browser.post(
            SIGN_OUT, {"csrf": csrf.encode(errors="replace").decode()}
        )
        assert response.status_code == 403


async def test_the_host_header_appears_on_no_page(console: ConsoleService) -> None:
    response = await console.browser.send(
        "GET", SERVERS_PAGE, headers={"x-forwarded-host": "evil.example", "host": "localhost"}
    )
    assert "evil.example" not in response.text
    assert "http://" not in response.text


async def test_after_many_invalid_tokens_the_next_one_has_to_wait(
    console: ConsoleService,
) -> None:
    browser = console.new_browser()
    statuses = [(await browser.post(SIGN_IN, {"token": f"t{n}"})).status_code for n in range(20)]
    assert statuses == [401] * 20
    braked = await browser.post(SIGN_IN, {"token": "one-more"})
    assert (braked.status_code, "too many" in braked.text.lower()) == (401, True)
    assert int(braked.headers["retry-after"]) > 0


@pytest.mark.parametrize("attempts", [20, 21, 200])
async def test_a_valid_token_signs_in_despite_many_invalid_ones_from_its_address(
    console: ConsoleService, attempts: int
) -> None:
    attacker, operator = console.new_browser(), console.new_browser()
    for n in range(attempts):
        await attacker.post(SIGN_IN, {"token": f"t{n}"})
    assert (await operator.post(SIGN_IN, {"token": ADMIN})).status_code == 303
    assert (await operator.get(SERVERS_PAGE, follow=False)).status_code == 200


async def test_the_size_of_a_sign_in_form_is_limited(console: ConsoleService) -> None:
    response = await console.new_browser().post(SIGN_IN, {"token": "x" * 70_000})
    assert response.status_code == 413


async def test_sign_in_and_sign_out_are_recorded_without_the_token(console: ConsoleService) -> None:
    browser = console.new_browser()
    with capture_logs() as logs:
        await browser.sign_in()
        await browser.press(SIGN_OUT, on=SERVERS_PAGE)
        await browser.post(SIGN_IN, {"token": "wrong-token"})
    events = [line["event"] for line in logs]
    assert "console.signed_in" in events
    assert "console.signed_out" in events
    assert "request.refused" in events
    assert ADMIN not in str(logs)
    assert "wrong-token" not in str(logs)


async def test_a_token_with_a_right_signs_in_until_revoked(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    principal = Principal(tenant_id="acme", rights=frozenset({OperatorRight.DOCUMENTS}))
    token, entry = add_token(tokens, principal)
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        await browser.sign_in(token)
        page = await browser.open(SERVERS_PAGE)
        assert f"Signed in as {entry.id}, tenant acme" in page.text
        assert "/console/documents" in page.links
        assert "/console/calls" not in page.links
        remove_entry(tokens, entry.id)

        async def is_over() -> bool:
            return (await browser.get(SERVERS_PAGE, follow=False)).status_code == 303

        await eventually(is_over)
        assert COOKIE not in browser.cookies


async def test_a_token_without_a_right_does_not_sign_in(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.jsonl"
    token, _ = add_token(tokens, Principal(tenant_id="acme"))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browser = console.new_browser()
        response = await browser.press(SIGN_IN, {"token": token})
        assert (response.status_code, COOKIE in browser.cookies) == (403, False)


async def test_each_single_right_can_sign_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens.jsonl"
    tokens = {
        right: add_token(file, Principal(tenant_id=None, rights=frozenset({right})))[0]
        for right in OperatorRight
    }
    async with running_console(auth_mode="token", tokens_file=str(file)) as console:
        for right, token in tokens.items():
            with named_row(right):
                assert (await console.new_browser().sign_in(token)).status_code == 200


async def test_frequent_sign_ins_end_only_the_oldest_sessions_of_the_same_token(
    tmp_path: Path,
) -> None:
    tokens = tmp_path / "tokens.jsonl"
    rights = frozenset({OperatorRight.RUN})
    token, _ = add_token(tokens, Principal(tenant_id=None, rights=rights))
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browsers = [console.new_browser() for _ in range(MAX_SESSIONS_EACH + 2)]
        for browser in browsers:
            await browser.sign_in(token)
        found = [(await it.get(SERVERS_PAGE, follow=False)).status_code for it in browsers]
        assert found == [303, 303, *[200] * MAX_SESSIONS_EACH]
        assert (await console.browser.get(SERVERS_PAGE, follow=False)).status_code == 200


async def test_users_of_one_tenant_cannot_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_tools_proxy.console.sessions.MAX_SESSIONS_TENANT", 1)
    tokens = tmp_path / "tokens.jsonl"
    people = [
        Principal(tenant_id=tenant_id, rights=frozenset({OperatorRight.RUN}))
        for tenant_id in ("acme", "acme", "rival")
    ]
    given = [add_token(tokens, it)[0] for it in people]
    async with running_console(auth_mode="token", tokens_file=str(tokens)) as console:
        browsers = [console.new_browser() for _ in given]
        for browser, token in zip(browsers, given, strict=True):
            await browser.sign_in(token)
        signed_in = (*browsers, console.browser)
        found = [(await it.get(SERVERS_PAGE, follow=False)).status_code for it in signed_in]
    assert found == [303, 200, 200, 200]


async def test_pages_forbid_inline_code_and_frames(console: ConsoleService) -> None:
    response = await console.browser.get(SERVERS_PAGE)
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= {
        part.strip() for part in policy.split(";")
    }
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"] == "no-store"
    page = Html(response.text)
    assert [attributes for _, attributes in page.tags if "style" in attributes] == []
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert all((it.get("src") or "").startswith("/console/assets/") for it in scripts)


async def test_an_api_page_still_refuses_foreign_origins(console: ConsoleService) -> None:
    response = await console.service.http.get(SERVERS, headers={"origin": "https://evil.example"})
    assert response.status_code == 403
