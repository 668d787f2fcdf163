"""Calls that wait for the approval of a second person, from the call to its use."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.asked_calls import AskedArguments
from tests.support.approvals import (
    APPROVE,
    ARGUMENTS,
    PAGE,
    PAY,
    Shop,
    approved,
    config_of,
    decide,
    running_shop,
    write_policies,
)
from tests.support.captured_logs import capture_logs
from tests.support.console_browser import ADMIN, Html
from tests.support.service import BATCH, CONFIG_DIR, EXECUTE, RESOURCES, eventually
from tests.support.tables import each_row
from tests.support.tokens import bearer, jwt_settings, signed_token


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with running_shop() as started:
        yield started


async def test_the_answer_to_a_call_that_waits_has_the_messages_of_its_policies() -> None:
    other = PAY.replace('"pay"', '"long"').replace("A second", "Refunds wait. " * 500 + "A second")
    silent = re.sub(r'@message\("[^"]+"\)', "", PAY.replace('"pay"', '"silent"'))
    async with running_shop(silent) as shop:
        message = (await shop.call())["error"]["message"]
        assert message.endswith("repeat it after the approval")
    async with running_shop(silent, PAY, other) as shop:
        for _ in range(2):
            message = (await shop.call())["error"]["message"]
            assert "repeat it after the approval. Policy: " in message
            assert "Policy: Refunds wait." in message
            assert message.endswith("…; A second person has to agree.")
            assert len(message) < 1_000


async def test_an_approved_call_is_made_once(shop: Shop) -> None:
    found = await shop.call()
    details = found["error"]["details"]
    assert set(details) == {"approval_id", "policy_ids", "expires_at"}
    assert details["policy_ids"] == ["pay"]
    assert await shop.asked() == details["approval_id"]
    boss = await shop.person()
    assert "shop:pay" in (await boss.open(PAGE)).text
    page = await boss.open(f"{PAGE}/{details['approval_id']}")
    assert '"to": "bob"' in page.text
    page = await decide(boss, details["approval_id"], "approve")
    assert "approved, not used" in page.text
    assert "bob" not in page.text
    assert (await shop.code(), shop.made) == ("OK", 1)
    assert "used, succeeded" in (await boss.open(f"{PAGE}/{details['approval_id']}")).text
    assert await shop.asked() != details["approval_id"]
    assert shop.made == 1


async def test_a_page_without_calls_explains_when_calls_wait(shop: Shop) -> None:
    boss = await shop.person()
    page = await boss.open(PAGE)
    assert "No calls are waiting" in page.text
    (address,) = [it for it in page.links if it.startswith("/console/help/")]
    assert "execute: false" in (await boss.open(address)).text
    assert (await boss.get(f"{PAGE}/unknown")).status_code == 404


@each_row(
    ("may", "executes", "first"),
    [
        (APPROVE, False, PAGE),
        (APPROVE, True, "/console/servers"),  # cannot approve
        ([*APPROVE, OperatorRight.AUDIT], False, "/console"),
        ([*APPROVE, OperatorRight.DOCUMENTS], False, "/console/servers"),
    ],
)
async def test_a_person_who_only_approves_begins_at_approvals(
    shop: Shop, may: list[OperatorRight], executes: bool, first: str
) -> None:
    browser = shop.console.new_browser()
    token = await shop.token_of(user="boss", may=may, executes=executes)
    response = await browser.sign_in(token)
    assert response.url.path == first
    assert (await browser.get("/console")).url.path == first


async def test_a_token_of_an_approver_is_created_at_the_console(shop: Shop) -> None:
    fields: dict[str, str | list[str]] = {
        "tenant_id": "tenant_1",
        "users": "one",
        "user_id": "boss",
        "rights": ["approve"],
        "no_calls": "1",
    }
    response = await shop.console.browser.press("/console/tokens/new", fields)
    (token,) = set(re.findall(r"mtp_[A-Za-z0-9_-]{43}", response.text))
    approval_id = await shop.asked()
    browser = shop.console.new_browser()
    await browser.sign_in(str(token))
    await decide(browser, approval_id, "approve")
    assert await shop.code() == "OK"
    assert await shop.code(token=str(token)) == "FORBIDDEN"


async def test_a_refusal_holds_for_the_run(shop: Shop) -> None:
    run = {"id": uuid4().hex}
    approval_id = await shop.asked(run=run)
    boss = await shop.person()
    page = await decide(boss, approval_id, "refuse", "Not today")
    assert "Refused byboss" in page.text
    found = await shop.call(run=run)
    assert found["error"]["code"] == "POLICY_DENIED"
    assert "Not today" in found["error"]["message"]
    assert await shop.code(run=run) == "POLICY_DENIED"
    assert await shop.code({"to": "bob", "cents": 1}, run=run) == "APPROVAL_PENDING"
    assert await shop.code(run={"id": uuid4().hex}) == "APPROVAL_PENDING"
    write_policies(PAY, PAY.replace('"pay"', '"pay-2"'))
    await asyncio.sleep(2.5)
    assert (await shop.code(run=run), shop.made) == ("POLICY_DENIED", 0)


CHANGED: dict[str, dict[str, Any]] = {
    "other arguments": {"arguments": {"to": "eve", "cents": 500}},
    "another type": {"arguments": {"to": "bob", "cents": "500"}},
    "one more argument": {"arguments": {**ARGUMENTS, "more": None}},
    "a run": {"run": {"id": "r"}},
}


@each_row("changed", CHANGED.values(), ids=CHANGED)
async def test_a_call_that_differs_needs_another_approval(
    shop: Shop, changed: dict[str, Any]
) -> None:
    before = shop.made
    await approved(shop)
    assert await shop.code(**{"arguments": ARGUMENTS, **changed}) != "OK"
    assert shop.made == before
    assert await shop.code() == "OK"


async def test_an_approval_is_for_one_user_and_one_agent(shop: Shop) -> None:
    await approved(shop)
    for holder in ({"user": "eve"}, {"user": "ann", "tenant": "other"}):
        token = await shop.token_of(**holder)
        assert await shop.code(token=token) == "APPROVAL_PENDING"
    assert (await shop.code(), shop.made) == ("OK", 1)


async def test_a_token_that_names_a_user_without_proof_shares_nothing_with_the_user(
    shop: Shop,
) -> None:
    run, ann = {"id": uuid4().hex}, {"tenant_id": "tenant_1", "user_id": "ann"}
    approval_id = await approved(shop, run=run)
    plain, boss = await shop.token_of(), await shop.person()
    named: dict[str, Any] = {"token": plain, "user": ann, "run": run}
    other_id = await shop.asked(**named)
    assert other_id != approval_id
    page = await boss.open(f"{PAGE}/{other_id}")
    assert ("user not proved" in page.text, "bob" in page.text) == (True, True)
    assert "user not proved" in (await boss.open(PAGE)).text
    assert "user not proved" not in (await boss.open(f"{PAGE}/{approval_id}")).text
    assert (await shop.code(run=run), shop.made) == ("OK", 1)
    await decide(boss, other_id, "approve")
    assert await shop.code(run=run) == "APPROVAL_PENDING"
    assert await shop.code(token=await shop.token_of(), user=ann, run=run) == "APPROVAL_PENDING"
    assert (await shop.code(**named), shop.made) == ("OK", 2)


async def test_a_token_that_names_a_user_without_proof_does_not_narrow_the_run_of_the_user(
    shop: Shop,
) -> None:
    run, ann = {"id": uuid4().hex}, {"tenant_id": "tenant_1", "user_id": "ann"}
    echo: dict[str, Any] = {"arguments": {"text": "x"}, "tool": "shop:echo"}
    keyed = {**echo, "idempotency_key": "k"}
    assert (await shop.call(**keyed, run=run))["status"] == "ok"
    narrow = {**run, "tools": ["shop:echo"], "read_only": True}
    plain = await shop.token_of()
    before = shop.server.script.calls["echo"]
    assert (await shop.call(**keyed, token=plain, user=ann, run=narrow))["status"] == "ok"
    assert shop.server.script.calls["echo"] == before + 1
    assert await shop.code(token=plain, user=ann, run=run) == "POLICY_DENIED"
    assert await shop.code(run=run) == "APPROVAL_PENDING"
    response = await shop.console.service.http.get(
        f"/internal/mcp/runs/{run['id']}", headers=bearer(ADMIN)
    )
    owners = response.json()["error"]["details"]["owners"]
    assert sorted("token_id" in it for it in owners) == [False, True]
    path = f"/console/calls/run?run_id={run['id']}&tenant_id=tenant_1"
    page = await shop.console.browser.open(path)
    assert len([it for it in page.links if "user_id=ann" in it and "token_id=" in it]) == 1


async def test_a_service_that_asserts_users_and_the_token_of_a_user_share_its_approvals(
    shop: Shop,
) -> None:
    service = await shop.token_of(asserts_users=True)
    await approved(shop)
    user = {"tenant_id": "tenant_1", "user_id": "ann"}
    assert (await shop.code(token=service, user=user), shop.made) == ("OK", 1)


async def test_an_approval_is_for_the_same_roles() -> None:
    async with running_shop() as shop:
        token = await shop.token_of(asserts_users=True)
        user = {"user_id": "bea", "roles": ["clerk"]}
        approval_id = await shop.asked(token=token, user=user)
        await decide(await shop.person(), approval_id, "approve")
        assert await shop.code(token=token, user={**user, "roles": []}) == "APPROVAL_PENDING"
        assert await shop.code(token=token, user=user) == "OK"


async def test_the_same_arguments_in_another_form_use_the_approval(shop: Shop) -> None:
    await approved(shop)
    assert await shop.code({"cents": 500.0, "to": "bob"}) == "OK"


async def test_another_set_of_policies_needs_another_approval(shop: Shop) -> None:
    approval_id = await approved(shop)
    write_policies(PAY.replace("second", "third"))

    async def is_asked_again() -> bool:
        found = await shop.call()
        return bool(found["error"]["details"]["approval_id"] != approval_id)

    # until the new file is read, a call would use the approval
    await asyncio.sleep(2.5)
    await eventually(is_asked_again)
    assert shop.made == 0


async def test_a_changed_definition_needs_another_approval(shop: Shop) -> None:
    approval_id = await approved(shop)
    shop.server.script.tools["pay"] = {
        **shop.server.script.tools["pay"],
        "description": "Pays, and more.",
    }
    shop.server.script.notify_list_changed()
    http = shop.console.service.http

    async def is_listed() -> bool:
        response = await http.get("/internal/mcp/tools", headers=bearer(shop.token))
        return "and more" in response.text

    await eventually(is_listed)
    assert (await shop.asked() != approval_id, shop.made) == (True, 0)


async def test_a_changed_entry_needs_another_approval(shop: Shop) -> None:
    approval_id = await approved(shop)
    config_of(shop.server, headers={"X-A": "secret"}).write(CONFIG_DIR)
    publisher = shop.console.service.gateway.publisher

    async def is_read() -> bool:
        return bool(publisher.configuration.servers["shop"].headers)

    await eventually(is_read)

    async def is_asked_again() -> bool:
        found = await shop.call()
        details = found.get("error", {}).get("details") or {}
        return details.get("approval_id") not in (None, approval_id)

    await eventually(is_asked_again)
    assert shop.made == 0


async def test_calls_of_a_batch_share_no_approval(shop: Shop) -> None:
    await approved(shop)
    calls = [{"tool_name": "shop:pay", "arguments": ARGUMENTS}] * 8
    response = await shop.console.service.http.post(
        BATCH, json={"calls": calls}, headers=bearer(shop.token)
    )
    codes = [it.get("error", {}).get("code", "OK") for it in response.json()["results"]]
    assert (codes.count("OK"), codes.count("APPROVAL_PENDING"), shop.made) == (1, 7, 1)


async def test_the_policy_fires_again_for_a_run_that_changed() -> None:
    policies = (
        PAY,
        '@id("after-text") @mode("enforce") forbid(principal, action == Action::"shop:pay", '
        'resource) when { context has run && context.run.seen.contains("label:reads_untrusted") };',
    )
    async with running_shop(*policies) as shop:
        run = {"id": uuid4().hex}
        approval_id = await approved(shop, run=run)
        echo = {"tool_name": "shop:echo", "arguments": {"text": "x"}, "run": run}
        http = shop.console.service.http
        await http.post(EXECUTE, json=echo, headers=bearer(shop.token))
        assert (await shop.code(run=run), shop.made) == ("POLICY_DENIED", 0)
        page = await (await shop.person()).open(f"{PAGE}/{approval_id}")
        assert "approved, not used" in page.text


async def test_explain_shows_that_a_call_waits_and_asks_for_nothing(shop: Shop) -> None:
    http, body = shop.console.service.http, {"tool_name": "shop:pay", "arguments": ARGUMENTS}
    auditor = await shop.token_of(user="ann", may=[OperatorRight.AUDIT])

    async def explained() -> str:
        response = await http.post(
            "/internal/mcp/explain",
            json={**body, "user": {"user_id": "ann", "tenant_id": "tenant_1"}},
            headers=bearer(auditor),
        )
        return str(response.json().get("decision", response.text))

    assert await explained() == "APPROVAL_PENDING"
    boss = await shop.person()
    assert "No calls are waiting" in (await boss.open(PAGE)).text


NOT_APPROVERS: dict[str, dict[str, Any]] = {
    "the user who asked": {"user": "ann"},
    "the same user in other letters": {"user": "ANN"},
    "another tenant": {"tenant": "other"},
    "without the right": {"may": [OperatorRight.AUDIT]},
    "a token that makes calls": {"executes": True},
    "without a user": {"user": None},
    "a service that asserts users": {"user": None, "asserts_users": True},
    "without a tenant": {"tenant": None},
}


@each_row("holder", NOT_APPROVERS.values(), ids=NOT_APPROVERS)
async def test_others_neither_read_nor_approve_a_call(shop: Shop, holder: dict[str, Any]) -> None:
    approval_id = await shop.asked()
    browser = await shop.person(**holder)
    page = Html((await browser.get(f"{PAGE}/{approval_id}")).text)
    assert "bob" not in page.text
    csrf = next(
        attributes.get("value") or ""
        for tag, attributes in Html((await browser.get("/console/servers")).text).tags
        if tag == "input" and attributes.get("name") == "csrf"
    )
    for decision in ("approve", "refuse"):
        response = await browser.post(f"{PAGE}/{approval_id}", {"csrf": csrf, "decision": decision})
        assert response.status_code in (403, 422), (response.status_code, response.text)
    assert await shop.asked() == approval_id


async def test_the_admin_token_does_not_approve(shop: Shop) -> None:
    approval_id = await shop.asked()
    assert PAGE not in (await shop.console.browser.open("/console/servers")).links
    response = await shop.console.browser.get(f"{PAGE}/{approval_id}")
    assert (response.status_code, "bob" in response.text) == (403, False)


async def test_no_bearer_token_approves(shop: Shop) -> None:
    approval_id = await shop.asked()
    token = await shop.token_of(user="boss", may=APPROVE, executes=False)
    for sent in (token, ADMIN):
        response = await shop.console.service.http.post(
            f"{PAGE}/{approval_id}",
            data={"decision": "approve"},
            headers=bearer(sent, Origin="http://localhost"),
        )
        assert response.status_code == 303
        assert "/console/sign-in" in response.headers["location"]
    assert await shop.asked() == approval_id


async def test_a_decision_needs_a_form_of_the_session(shop: Shop) -> None:
    approval_id = await shop.asked()
    boss, other = await shop.person(), await shop.person("chief")
    form = Html((await other.get(f"{PAGE}/{approval_id}")).text).form(f"{PAGE}/{approval_id}")
    fields = {**form.fields, "decision": "approve"}
    for origin, csrf in (
        ("http://localhost", fields["csrf"]),
        ("http://evil.example", ""),
        (None, ""),
    ):
        response = await boss.post(f"{PAGE}/{approval_id}", {**fields, "csrf": csrf}, origin=origin)
        assert response.status_code == 403
    assert (await boss.get(f"{PAGE}/{approval_id}?decision=approve")).status_code == 200
    assert await shop.asked() == approval_id


async def test_the_second_decision_changes_nothing(shop: Shop) -> None:
    approval_id = await shop.asked()
    boss, chief = await shop.person(), await shop.person("chief")
    path = f"{PAGE}/{approval_id}"
    forms = [Html((await it.get(path)).text).form(path) for it in (boss, chief)]
    await boss.post(path, {**forms[0].fields, "decision": "refuse"})
    late = await chief.post(path, {**forms[1].fields, "decision": "approve"})
    assert late.status_code == 422
    assert await shop.code() == "POLICY_DENIED"


FINANCE = PAY.replace("@mode", '@approvers("role:finance, role:legal") @mode')


async def test_a_policy_names_the_roles_of_approvers() -> None:
    async with running_shop(FINANCE) as shop:
        approval_id = await shop.asked()
        clerk = await shop.person(roles=("clerk",))
        page = await clerk.open(f"{PAGE}/{approval_id}")
        assert ("bob" in page.text, "for other approvers" in (await clerk.open(PAGE)).text) == (
            False,
            True,
        )
        legal = await shop.person("lea", roles=("legal",))
        assert "bob" in (await legal.open(f"{PAGE}/{approval_id}")).text
        await decide(legal, approval_id, "approve")
        assert await shop.code() == "OK"


async def test_a_policy_can_let_users_approve_their_own_calls() -> None:
    async with running_shop(PAY.replace("@mode", '@approvers("self") @mode')) as shop:
        approval_id = await shop.asked()
        boss = await shop.person()
        assert "bob" not in (await boss.open(f"{PAGE}/{approval_id}")).text
        await decide(await shop.person("ann"), approval_id, "approve")
        assert await shop.code() == "OK"


async def test_a_session_with_a_jwt_approves() -> None:
    async with running_shop(**jwt_settings()) as shop:
        ann = signed_token(user="ann", may=APPROVE)
        approval_id = await shop.asked(token=ann)
        path = f"{PAGE}/{approval_id}"
        for token, may_read in (
            (ann, False),
            (signed_token(user="eve"), False),
            (signed_token(user=None, may=APPROVE), False),
            (signed_token(user="boss", may=APPROVE), True),
        ):
            browser = shop.console.new_browser()
            await browser.sign_in(token)
            assert ("bob" in (await browser.get(path)).text) == may_read
        await decide(browser, approval_id, "approve")
        assert await shop.code(token=ann) == "OK"


async def test_a_renewed_jwt_can_list_the_roles_in_another_order() -> None:
    async with running_shop(**jwt_settings()) as shop:
        first, renewed = (signed_token(user="ann", roles=it) for it in (("a", "b"), ("b", "a")))
        approval_id = await shop.asked(token=first)
        browser = shop.console.new_browser()
        await browser.sign_in(signed_token(user="boss", may=APPROVE))
        await decide(browser, approval_id, "approve")
        assert await shop.code(token=renewed) == "OK"


async def test_a_person_who_acts_for_another_user_does_not_approve_the_call() -> None:
    async with running_shop(**jwt_settings()) as shop:
        operator = signed_token(user="op", may=[*APPROVE, OperatorRight.RUN])
        response = await shop.console.service.http.post(
            "/internal/mcp/try",
            json={
                "tool_name": "shop:pay",
                "arguments": ARGUMENTS,
                "user": {"tenant_id": "tenant_1", "user_id": "bea"},
            },
            headers=bearer(operator),
        )
        assert "APPROVAL_PENDING" in response.text
        browser = shop.console.new_browser()
        await browser.sign_in(operator)
        (path,) = (it for it in (await browser.open(PAGE)).links if it.startswith(f"{PAGE}/"))
        assert "bob" not in (await browser.open(path)).text


async def test_an_operator_with_two_tokens_does_not_approve_the_call_of_one_with_the_other(
    shop: Shop,
) -> None:
    operator = await shop.token_of(user="op", may=[OperatorRight.RUN])
    body = {
        "tool_name": "shop:pay",
        "arguments": ARGUMENTS,
        "user": {"tenant_id": "tenant_1", "user_id": "bea"},
    }
    response = await shop.console.service.http.post(
        "/internal/mcp/try", json=body, headers=bearer(operator)
    )
    path = f"{PAGE}/{response.json()['error']['details']['approval_id']}"
    page = await (await shop.person("OP")).open(path)
    assert ("bob" in page.text, "you asked for it yourself" in page.text) == (False, True)
    page = await (await shop.person("boss")).open(path)
    assert ("bob" in page.text, "acts for this user: op" in page.text) == (True, True)


async def test_hidden_characters_and_markup_are_shown_as_text(shop: Shop) -> None:
    text = "a\u202eb\u200b<b>https://evil.io</b>"
    approval_id = await shop.asked({"to": text, "cents": 1})
    page = await (await shop.person()).open(f"{PAGE}/{approval_id}")
    assert r"a\u202eb\u200b<b>https://evil.io</b>" in page.text
    assert not any("evil" in it for it in page.links)


async def test_a_call_whose_arguments_are_gone_cannot_be_decided_on(shop: Shop) -> None:
    approval_id = await shop.asked()
    opened = await shop.console.service.gateway.approvals.open()
    await opened.records.take(AskedArguments, approval_id)
    response = await (await shop.person()).get(f"{PAGE}/{approval_id}")
    assert (response.status_code, "Approve</button>" in response.text) == (404, False)


async def test_texts_that_look_equal_are_shown_differently(shop: Shop) -> None:
    looks = ("bob", "bob\ufe0f", "bob\u2800", "bob\u00a0", "bob\u3000", "bob ")
    boss, shown = await shop.person(), set[str]()
    for number, text in enumerate(looks):
        eve = await shop.token_of(user=f"eve-{number}")
        approval_id = await shop.asked({"to": text, "cents": 1}, token=eve)
        source = (await boss.get(f"{PAGE}/{approval_id}")).text
        (found,) = re.findall(r"&#34;to&#34;: (.*),\n", source)
        assert found.isascii()
        shown.add(found)
    assert len(shown) == len(looks)


async def test_the_uri_of_a_resource_is_an_argument() -> None:
    policy = PAY.replace("shop:pay", "shop:resources/read")
    async with running_shop(policy) as shop:
        http, headers = shop.console.service.http, bearer(shop.token)
        uris = [
            it["uri"] for it in (await http.get(RESOURCES, headers=headers)).json()["resources"]
        ]
        path, body = f"{RESOURCES}/read", {"uri": uris[0]}
        with capture_logs() as logs:
            pending = (await http.post(path, json=body, headers=headers)).json()["error"]
        assert (pending["code"], uris[0] in str(pending)) == ("APPROVAL_PENDING", False)
        (asked,) = (it for it in logs if it["event"] == "approval.asked")
        assert uris[0] not in str(asked)
        approval_id = pending["details"]["approval_id"]
        boss = await shop.person()
        assert uris[0] in (await boss.open(f"{PAGE}/{approval_id}")).text
        await decide(boss, approval_id, "approve")
        assert (await http.post(path, json=body, headers=headers)).json()["status"] == "ok"


async def test_limits_of_waiting_calls(shop: Shop) -> None:
    run = {"id": uuid4().hex}
    for cents in range(5):
        await shop.asked({"to": "bob", "cents": cents}, run=run)
    assert await shop.code({"to": "bob", "cents": 9}, run=run) == "RATE_LIMIT_EXCEEDED"
    assert await shop.code({"to": "bob", "cents": 0}, run=run) == "APPROVAL_PENDING"
    codes = await asyncio.gather(*(shop.code({"to": "bob", "cents": cents}) for cents in range(20)))
    assert codes.count("APPROVAL_PENDING") == 15
    boss = await shop.person()
    await decide(boss, await shop.asked({"to": "bob", "cents": 0}, run=run), "refuse")
    assert await shop.code({"to": "bob", "cents": 9}, run=run) == "APPROVAL_PENDING"
    eve = await shop.token_of(user="eve")
    assert await shop.code(token=eve) == "APPROVAL_PENDING"
    long = {"to": "b" * 70_000, "cents": 1}
    assert await shop.code(long, token=eve) == "POLICY_DENIED"


async def test_a_waiting_call_and_an_approval_expire() -> None:
    async with running_shop(approvals_expire_s=1, approvals_valid_s=1) as shop:
        first = await shop.asked()
        await asyncio.sleep(1.1)
        boss = await shop.person()
        assert (await boss.get(f"{PAGE}/{first}")).status_code == 404
        second = await shop.asked()
        assert second != first
        await decide(boss, second, "approve")
        await asyncio.sleep(1.1)
        assert await shop.asked() not in (first, second)
        assert "approved, expired" in (await boss.open(f"{PAGE}/{second}")).text
        assert shop.made == 0


async def test_a_failed_call_uses_its_approval(shop: Shop) -> None:
    approval_id = await approved(shop)
    await shop.server.stop()
    assert await shop.code() == "SERVER_UNAVAILABLE"
    await shop.server.start()
    page = await (await shop.person()).open(f"{PAGE}/{approval_id}")
    assert ("used, failed" in page.text, "SERVER_UNAVAILABLE" in page.text) == (True, True)
    assert await shop.asked() != approval_id


async def test_an_approved_call_without_an_answer_is_not_sent_again() -> None:
    """Other calls of a tool that says that it is idempotent are."""
    crash = PAY.replace("shop:pay", "shop:crash_safe")
    of_runs = crash.replace("resource);", "resource) when { context has run };")
    async with running_shop(of_runs) as shop:
        calls, run = shop.server.script.calls, {"id": uuid4().hex}
        assert await shop.code({}, tool="shop:crash_safe") != "OK"
        assert calls["crash_safe"] == 2
        await approved(shop, tool="shop:crash_safe", arguments={}, run=run)

        async def is_connected() -> bool:
            return await shop.code({"text": "x"}, tool="shop:echo") == "OK"

        await eventually(is_connected)
        assert await shop.code({}, tool="shop:crash_safe", run=run) == "SERVER_UNAVAILABLE"
        assert calls["crash_safe"] == 3


async def test_a_repeated_call_names_the_earlier_one_that_may_have_been_carried_out(
    shop: Shop,
) -> None:
    run = {"id": uuid4().hex}
    earlier_id = await approved(shop, run=run)
    assert "earlier_approval_id" not in (await shop.call())["error"]["details"]
    await shop.server.stop()
    assert await shop.code(run=run) == "SERVER_UNAVAILABLE"
    await shop.server.start()
    boss = await shop.person()
    for same in (run, {"id": uuid4().hex}, None):  # also in a new run
        error = (await shop.call(run=same))["error"]
        assert "may have been carried out" in error["message"]
        assert error["details"]["earlier_approval_id"] == earlier_id
        page = await boss.open(f"{PAGE}/{error['details']['approval_id']}")
        assert "This may be the second time" in page.text
        assert f"{PAGE}/{earlier_id}" in page.links
    for holder in ({"user": "eve"}, {"user": "ann", "tenant": "other"}):
        error = (await shop.call(token=await shop.token_of(**holder)))["error"]
        assert (error["code"], error["details"].get("earlier_approval_id")) == (
            "APPROVAL_PENDING",
            None,
        )
        assert "carried out" not in error["message"]
    other = (await shop.call({"to": "eve"}, run=run))["error"]
    assert "earlier_approval_id" not in other["details"]


async def test_a_key_does_not_repeat_the_answer_that_a_call_waits(shop: Shop) -> None:
    await approved(shop, idempotency_key="k")
    assert await shop.code(idempotency_key="k") == "OK"
    assert (await shop.code(idempotency_key="k"), shop.made) == ("OK", 1)


async def test_the_report_of_a_run_shows_who_approved_its_call(shop: Shop) -> None:
    run = {"id": uuid4().hex}
    approval_id = await approved(shop, run=run)
    assert await shop.code(run=run) == "OK"
    response = await shop.console.service.http.get(
        f"/internal/mcp/runs/{run['id']}",
        params={"tenant_id": "tenant_1", "user_id": "ann"},
        headers=bearer(ADMIN),
    )
    shown = response.json()
    assert [(it["event"], it.get("decision"), it["by"]) for it in shown["approvals"]] == [
        ("approval.asked", None, "ann"),
        ("approval.decided", "approved", "boss"),
        ("approval.used", None, "ann"),
    ]
    assert {it["approval_id"] for it in shown["approvals"]} == {approval_id}
    assert shown["calls"][-1]["approval_id"] == approval_id


async def test_records_have_no_arguments(shop: Shop) -> None:
    with capture_logs() as logs:
        approval_id = await approved(shop, run={"id": "the-run"})
        assert await shop.code(run={"id": "the-run"}) == "OK"
    events = [it for it in logs if str(it.get("event", "")).startswith("approval.")]
    assert [it["event"] for it in events] == [
        *("approval.asked", "approval.seen", "approval.decided", "approval.used")
    ]
    assert "bob" not in str(logs)
    for it in events:
        payload = it.get("payload", it)
        assert payload["approval_id"] == approval_id
        assert payload["run_id"] == "the-run"
        assert payload["policies"] == [{"id": "pay", "mode": "approve"}]
    assert [it.get("payload", it)["user_id"] for it in events] == ["ann", "boss", "boss", "ann"]
