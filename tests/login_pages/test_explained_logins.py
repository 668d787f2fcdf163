"""Explaining a call predicts a required sign-in without starting one."""

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.login_pages.page_gateway import (
    PUBLIC_URL,
    TOOL,
    PageGateway,
    code,
    page_gateway,
    sent_token,
)
from tests.support.configuration import Json
from tests.support.tokens import bearer

OPERATOR: Json = {"tenant_id": ..., "sub": "root", "may": [OperatorRight.AUDIT.value]}
EXECUTE = "/internal/mcp/execute"


async def explain(gateway: PageGateway, user_id: str = "ann") -> tuple[Json, Json]:
    response = await gateway.served.http.post(
        "/internal/mcp/explain",
        json={"tool_name": TOOL, "user": {"tenant_id": "acme", "user_id": user_id}},
        headers=bearer(gateway.token(**OPERATOR)),
    )
    explained: Json = response.json()
    (verdict,) = [it for it in explained["checks"] if it["check"] == "server"]
    return explained, verdict


def requests_of(gateway: PageGateway) -> list[object]:
    sent = gateway.own.requests, gateway.issuer.requests, gateway.server.script.calls
    return [list(it) for it in sent]


async def test_a_missing_login_is_predicted_without_an_address_or_a_request() -> None:
    async with page_gateway() as gateway:
        before = requests_of(gateway)
        explained, verdict = await explain(gateway)
        assert requests_of(gateway) == before
        assert (explained["decision"], verdict["verdict"]) == ("LOGIN_REQUIRED", "LOGIN_REQUIRED")
        assert PUBLIC_URL not in str(explained)
        gateway.sign_in_as()
        await gateway.sign_in(gateway.browser(), await gateway.address())
        explained, verdict = await explain(gateway)
        # the server may not have been reconnected since
        assert explained["decision"] in ("pass", "not_checked")
        assert verdict["verdict"] == "not_checked"
        assert "JWT" in verdict["message"]
        assert (await explain(gateway, "bob"))[0]["decision"] == "LOGIN_REQUIRED"


async def test_an_idempotency_key_is_free_again_after_the_user_has_signed_in() -> None:
    async with page_gateway() as gateway:

        async def call() -> Json:
            response = await gateway.served.http.post(
                EXECUTE,
                json={"tool_name": TOOL, "arguments": {}, "idempotency_key": "k-1"},
                headers=bearer(gateway.token()),
            )
            answer: Json = response.json()
            return answer

        first = await call()
        assert code(first) == "LOGIN_REQUIRED"
        gateway.sign_in_as()
        await gateway.sign_in(gateway.browser(), first["error"]["details"]["url"])
        assert sent_token(await call())
