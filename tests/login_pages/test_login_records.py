"""Records of sign-ins, their ends, and refusals, with user and reason."""

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.login_pages.page_gateway import LOGINS, PageGateway, page_gateway
from tests.support.configuration import Json
from tests.support.tokens import bearer

OPERATOR: Json = {"tenant_id": ..., "sub": "root", "may": [OperatorRight.LOGINS.value]}
OF_ANN: Json = {"server_id": "s", "tenant_id": "acme", "user_id": "ann"}


def records(gateway: PageGateway, *events: str) -> list[Json]:
    audit = gateway.served.service.gateway.audit
    found = [*audit.recent(), *audit.recent(unauthenticated=True)]
    payloads: list[Json] = [
        {"event": it["event"], **_mapping(it["payload"])} for it in found if it["event"] in events
    ]
    return sorted(payloads, key=lambda it: int(it.get("seq", 0)))


def _mapping(value: object) -> Json:
    assert isinstance(value, dict)
    return value


async def sign_in(gateway: PageGateway) -> None:
    gateway.sign_in_as()
    await gateway.sign_in(gateway.browser(), await gateway.address())


async def end(gateway: PageGateway, query: Json, *, removed: bool = True, **claims: object) -> None:
    headers = bearer(gateway.token(**claims))
    answer = await gateway.served.http.request("DELETE", LOGINS, params=query, headers=headers)
    assert answer.json() == {"removed": removed}


async def test_a_sign_in_through_the_pages_is_recorded_with_its_user() -> None:
    async with page_gateway() as gateway:
        await sign_in(gateway)
        (record,) = records(gateway, "login.signed_in")
    assert OF_ANN.items() <= record.items()
    assert (record["code"], record["login_for"], record["peer"]) == ("OK", "user", "127.0.0.1")
    assert record["route"] == "GET /oauth/callback"


async def test_a_failed_sign_in_is_recorded_with_a_reason() -> None:
    async with page_gateway() as gateway:
        gateway.issuer.answer = {"error": "access_denied", "code": None}
        await sign_in(gateway)
        (record,) = records(gateway, "login.signed_in")
    assert OF_ANN.items() <= record.items()
    assert record["code"] == "SERVER_UNAVAILABLE"
    assert "Nothing was connected" in record["reason"]


async def test_a_refusal_of_a_page_is_recorded_without_its_address() -> None:
    async with page_gateway() as gateway:
        url = await gateway.address()
        gateway.sign_in_as(sub="bob")
        await gateway.browser().open(url)
        await gateway.browser().open("https://gateway.example/tools/oauth/start/unknown")
        await gateway.browser().send("PUT", url)
        refused = records(gateway, "request.refused")
    assert [(it["code"], it["route"]) for it in refused] == [
        ("FORBIDDEN", "GET /oauth/callback"),
        ("NOT_FOUND", "GET /oauth/start/{nonce}"),
        ("METHOD_NOT_ALLOWED", "PUT /oauth/start/{nonce}"),
    ]
    assert url.rpartition("/")[2] not in str(refused)


async def test_actions_of_users_on_their_own_logins_are_recorded_as_theirs() -> None:
    async with page_gateway() as gateway:
        await sign_in(gateway)
        await gateway.post_login()
        await gateway.served.http.get(LOGINS, headers=bearer(gateway.token()))
        await end(gateway, {"server_id": "s"})
        offered, listed, ended = records(gateway, "login.offered", "logins.listed", "login.ended")
    assert (offered["event"], offered["server_id"], offered["code"]) == ("login.offered", "s", "OK")
    assert (listed["event"], listed["user_id"]) == ("logins.listed", "ann")
    assert OF_ANN.items() <= ended.items()
    for record in (offered, listed, ended):
        assert (record["issuer"], record["subject"]) == (gateway.own.url, "ann")
        assert "right" not in record


async def test_a_login_ended_by_an_operator_is_recorded_with_the_right() -> None:
    async with page_gateway() as gateway:
        await sign_in(gateway)
        await end(gateway, {**OF_ANN, "for": "user"}, **OPERATOR)
        await end(gateway, {**OF_ANN, "for": "user"}, removed=False, **OPERATOR)
        ended, again = records(gateway, "login.ended")
    assert (ended["removed"], again["removed"]) == (True, False)
    assert OF_ANN.items() <= ended.items()
    assert (ended["right"], ended["subject"], ended["login_for"]) == ("logins", "root", "user")
