"""Tokens in the console: list, creation, one-time display, revocation, and permissions."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.auth.token_format import TokenEntry, read_lines, sha256_of
from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.console_browser import ConsoleBrowser, ConsoleService, Html, running_console
from tests.support.service import EXECUTE, TOOLS, eventually
from tests.support.tables import named_row
from tests.support.tokens import TOKENS_FILE, bearer, file_token, token_settings

LIST = "/console/tokens"
NEW = f"{LIST}/new"
REVOKE = f"{LIST}/revoke"
MARKUP = "<img src=x onerror=alert(1)>\"'&amp;"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleService]:
    async with running_console(**token_settings()) as started:
        yield started


def entries() -> tuple[TokenEntry, ...]:
    return read_lines(TOKENS_FILE.read_bytes()).entries


def secret_on(page: Html) -> str:
    (found,) = set(re.findall(r"mtp_[A-Za-z0-9_-]{43}", page.text))
    return str(found)


async def signed_in(console: ConsoleService, **holder: Any) -> ConsoleBrowser:
    """Return the browser of an operator whose token has at least the right TOKENS."""
    token = file_token(**{"may": [OperatorRight.TOKENS], **holder})
    assert console.service.gateway.tokens is not None
    await console.service.gateway.tokens.load()
    browser = console.new_browser()
    await browser.sign_in(token)
    return browser


async def make(browser: ConsoleBrowser, **fields: str | list[str]) -> tuple[int, Html]:
    response = await browser.press(NEW, fields)
    return response.status_code, Html(response.text)


async def test_an_empty_list_explains_how_to_create_a_token(console: ConsoleService) -> None:
    page = await console.browser.open(LIST)
    assert "No tokens yet" in page.text
    assert NEW in page.links


async def test_a_token_for_one_agent_can_be_created_and_used(
    console: ConsoleService,
) -> None:
    status, page = await make(
        console.browser, tenant_id="acme", agents="reader", note="nightly report"
    )
    assert (status, "Copy it now" in page.text) == (200, True)
    secret = secret_on(page)
    (entry,) = entries()
    assert entry.hash == sha256_of(secret)
    assert (entry.principal.tenant_id, entry.principal.agents) == ("acme", frozenset({"reader"}))
    assert entry.expires is not None
    assert entry.created is not None
    assert (entry.expires - entry.created).days == 90
    used = await console.service.http.get(TOOLS, headers=bearer(secret))
    assert used.status_code == 200
    assert "/internal/mcp/tools" in page.text
    assert "Authorization: Bearer" in page.text


async def test_the_displayed_call_works_with_the_token(console: ConsoleService) -> None:
    _, page = await make(console.browser, tenant_id="acme", agents="d'or,b")
    assert 'Agent "d\'or" is not in agents.json' in page.text
    _, page = await make(console.browser, tenant_id="acme")
    shown = re.search(r"internal/mcp/execute' -H .* -d '([^']*)'", page.text)
    assert shown is not None
    headers = {**bearer(secret_on(page)), "Content-Type": "application/json"}
    answer = await console.service.http.post(EXECUTE, content=shown[1], headers=headers)
    assert answer.json()["status"] == "ok"


async def test_the_token_is_shown_once_and_not_stored(console: ConsoleService) -> None:
    form = (await console.browser.open(NEW)).form(NEW)
    response = await console.browser.post(NEW, {**form.fields, "tenant_id": "acme"})
    secret = secret_on(Html(response.text))
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    assert "set-cookie" not in response.headers
    (entry,) = entries()
    for path in (LIST, NEW, f"{REVOKE}?token_id={entry.id}"):
        assert secret not in (await console.browser.get(path)).text


async def test_every_choice_of_the_form_applies_to_the_token(console: ConsoleService) -> None:
    await make(
        console.browser,
        tenant_id="acme",
        users="one",
        user_id="jo",
        roles="editor, lead",
        agents="a,b",
        for_documents="some",
        documents="d1\nd2",
        rights=["audit", "run"],
        expires="never",
    )
    await make(console.browser, tenant_id="acme", users="asserted", roles="x", user_id="y")
    await make(console.browser, tenant_id="acme", for_documents="none", documents="d1")
    one, service, without = entries()
    assert (one.principal.user_id, one.principal.roles) == ("jo", ("editor", "lead"))
    assert one.principal.agents == frozenset({"a", "b"})
    assert one.principal.documents == frozenset({"d1", "d2"})
    assert one.principal.rights == {OperatorRight.AUDIT, OperatorRight.RUN}
    assert one.expires is None
    assert (service.principal.asserts_users, service.principal.user_id) == (True, None)
    assert service.principal.roles == ()
    assert without.principal.documents == frozenset()


async def test_an_error_is_shown_next_to_its_field(console: ConsoleService) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "Enter a tenant"),
        ({"tenant_id": "a", "users": "one"}, "Enter the user"),
        ({"tenant_id": "a", "for_documents": "some"}, "Enter at least one document"),
        ({"tenant_id": "a", "expires": "other"}, "such as 12h"),
        (
            {"tenant_id": "a", "expires": "other", "expires_at": "soon"},
            "Should be hours, days or weeks",
        ),
        ({"tenant_id": "a", "agents": "x" * 257}, "at most 256 characters"),
        ({"tenant_id": "a", "note": "x" * 1001}, "at most 1000 characters"),
        ({"tenant_id": "a", "rights": ["everything"]}, "Should be"),
    ]
    for fields, problem in cases:
        with named_row(fields, problem):
            status, page = await make(console.browser, **{"note": MARKUP, **fields})
            assert status in (400, 422)
            assert problem in page.text
            assert "problem" in {attributes.get("class") for _, attributes in page.tags}
            assert page.form(NEW).fields["note"] == fields.get("note", MARKUP)
            assert not TOKENS_FILE.exists()


async def test_the_list_is_paged_and_filtered_by_tenant(console: ConsoleService) -> None:
    for number in range(40):
        file_token(tenant=f"t{number % 2}")
    assert console.service.gateway.tokens is not None
    await console.service.gateway.tokens.load()
    first = await console.browser.open(LIST)
    (older,) = [link for link in first.links if "cursor=" in link and "token_id" not in link]
    second = await console.browser.open(older)
    shown = [link for page in (first, second) for link in page.links if link.endswith("#revoke")]
    assert len(set(shown)) == 40
    of_one = await console.browser.open(LIST, tenant_id="t1")
    assert "t0" not in of_one.text
    assert "This tenant has no tokens" in (await console.browser.open(LIST, tenant_id="x")).text


async def test_expired_and_expiring_tokens_are_marked(console: ConsoleService) -> None:
    for expires in ("1d", "90d", "never"):
        await make(console.browser, tenant_id="acme", expires=expires)
    page = await console.browser.open(LIST)
    assert [word in page.text for word in ("expires soon", "active", "never expires")] == [True] * 3
    lines = TOKENS_FILE.read_text(encoding="utf-8").splitlines()
    TOKENS_FILE.write_text(
        "\n".join(
            line.replace(line.split('"expires":"')[1][:4], "2001") if "expires" in line else line
            for line in lines
        )
    )
    assert console.service.gateway.tokens is not None
    await console.service.gateway.tokens.load()
    assert (await console.browser.open(LIST)).text.count("expired") == 2


async def test_the_confirmation_names_the_effect_and_the_token_is_revoked(
    console: ConsoleService,
) -> None:
    _, made = await make(console.browser, tenant_id="acme", note="nightly report")
    secret, (entry,) = secret_on(made), entries()
    address = next(it for it in (await console.browser.open(LIST)).links if "#revoke" in it)
    page = await console.browser.open(address.partition("#")[0])
    assert "tenant acme (nightly report)" in page.text
    done = await console.browser.press(REVOKE, {"token_id": entry.id}, on=address.partition("#")[0])
    assert f"Token {entry.id} revoked" in done.text
    assert entries() == ()
    used = await console.service.http.get(TOOLS, headers=bearer(secret))
    assert used.status_code == 401
    absent = await console.browser.get(address.partition("#")[0])
    assert (absent.status_code, "may have been revoked" in absent.text) == (404, True)


async def test_operators_who_revoke_their_own_token_are_warned_and_signed_out(
    console: ConsoleService,
) -> None:
    browser = await signed_in(console, tenant="acme")
    (entry,) = entries()
    address = f"{REVOKE}?token_id={entry.id}"
    assert "will be signed out" in (await browser.open(address)).text
    done = await browser.press(REVOKE, on=address)
    assert "Your session has ended" in done.text


async def test_a_token_cannot_create_a_more_powerful_one(console: ConsoleService) -> None:
    browser = await signed_in(
        console,
        tenant="acme",
        user="jo",
        roles=("editor",),
        agents=("reader", "writer"),
        documents=("d1",),
        may=[OperatorRight.TOKENS, OperatorRight.AUDIT],
    )
    page = await browser.open(NEW)
    names = {attributes.get("name") for tag, attributes in page.tags if tag == "input"}
    assert names.isdisjoint({"tenant_id", "user_id", "users", "agents", "roles"})
    offered = {(it["name"], it["value"]) for _, it in page.tags if it.get("type") == "checkbox"}
    assert offered == {
        ("own_roles", "editor"),
        ("own_agents", "reader"),
        ("own_agents", "writer"),
        ("own_documents", "d1"),
        ("rights", "audit"),
        ("rights", "tokens"),
        ("no_calls", "1"),
    }
    status, page = await make(browser, own_agents="reader", own_documents="d1")
    assert status == 200
    made = entries()[-1].principal
    assert (made.tenant_id, made.user_id, made.agents) == ("acme", "jo", frozenset({"reader"}))
    for wider in ({"rights": "config"}, {"own_agents": "other"}, {"own_roles": "boss"}):
        status, page = await make(
            browser, **{"own_agents": "reader", "own_documents": "d1", **wider}
        )
        assert (status, "more permissions than yours" in page.text) == (403, True), wider
    assert len(entries()) == 2


async def test_a_tenants_operator_sees_only_that_tenant(console: ConsoleService) -> None:
    await make(console.browser, tenant_id="globex", note="of globex")
    browser = await signed_in(console, tenant="acme", asserts_users=True)
    page = await browser.open(LIST, tenant_id="globex")
    assert "globex" not in page.text
    assert "yours" in page.text
    await make(browser, tenant_id="globex", note="forged")
    assert entries()[-1].principal.tenant_id == "acme"
    (foreign,) = [it.id for it in entries() if it.note == "of globex"]
    csrf = (await browser.open(NEW)).form(NEW).fields["csrf"]
    refused = await browser.post(REVOKE, {"csrf": csrf, "token_id": foreign})
    assert (refused.status_code, "that you may revoke" in refused.text) == (404, True)


async def test_tokens_need_the_right(console: ConsoleService) -> None:
    browser = await signed_in(console, tenant="acme", may=[OperatorRight.RUN])
    assert LIST not in (await browser.open("/console/servers")).links
    for path in (LIST, NEW, f"{REVOKE}?token_id=x"):
        assert (await browser.get(path)).status_code == 403
    csrf = (await browser.open("/console/servers")).form("/console/sign-out").fields["csrf"]
    for path in (NEW, REVOKE):
        response = await browser.post(path, {"csrf": csrf, "tenant_id": "a", "token_id": "x"})
        assert response.status_code == 403


async def test_token_texts_are_never_markup(console: ConsoleService) -> None:
    await make(console.browser, tenant_id=MARKUP, agents=MARKUP, note=MARKUP, users="asserted")
    (entry,) = entries()
    for path in (LIST, f"{REVOKE}?token_id={entry.id}", f"{NEW}?tenant_id=%3Cimg%3E"):
        page = await console.browser.get(path)
        assert "<img src=x" not in page.text
        assert [it for tag, it in Html(page.text).tags if "onerror" in it] == []


async def test_with_other_authentication_the_page_explains_the_alternative() -> None:
    async with running_console() as console:
        for path in (LIST, NEW, f"{REVOKE}?token_id=x"):
            page = await console.browser.open(path)
            assert "mcp-tools-proxy tokens" in page.text
            assert "MCP_PROXY_AUTH_MODE=token" in page.text


async def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "no-folder").write_text("")
    settings = {**token_settings(), "tokens_file": tmp_path / "no-folder" / "tokens.jsonl"}
    async with running_console(**settings) as console:
        status, page = await make(console.browser, tenant_id="acme")
        assert (status, "cannot be written" in page.text) == (409, True)
        csrf = page.form(NEW).fields["csrf"]
        revoked = await console.browser.post(REVOKE, {"csrf": csrf, "token_id": "x"})
        assert (revoked.status_code, "cannot be written" in revoked.text) == (409, True)
        assert "cannot be read" in (await console.browser.open(LIST)).text


async def test_the_page_of_many_tokens_stays_small(console: ConsoleService) -> None:
    for number in range(41):
        agents = tuple(f"<agent {number} {place}>" for place in range(50))
        file_token(tenant="<" * 256, user="u" * 256, agents=agents, may=[*OperatorRight])

    async def known() -> bool:
        return len(console.service.gateway.tokens.entries) == 41  # type: ignore[union-attr]

    await eventually(known)
    response = await console.browser.get(LIST)
    assert len(response.content) < 60_000
