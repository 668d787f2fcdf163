"""Authentication in each mode on each route (contract §1, order of checks)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.builders import make_document
from tests.support.configuration import Config, make_agent, make_preset
from tests.support.service import (
    ACTIVE,
    BATCH,
    EXECUTE,
    PRESETS,
    PROMPTS,
    REMOTE,
    RESOURCES,
    SERVERS,
    TOOLS,
    Envelope,
    Service,
    running,
)
from tests.support.tokens import MODES, MakeToken, bearer, file_token, token_settings

READ: dict[str, object] = {"tool_name": "read_doc_metadata", "arguments": {"doc_id": "doc"}}
USER = {"user_id": "u", "tenant_id": "tenant_1"}

POSTED: dict[str, dict[str, object]] = {
    EXECUTE: READ,
    BATCH: {"calls": [READ]},
    "/internal/mcp/prompts/get": {"name": "none"},
    "/internal/mcp/resources/read": {"uri": "none://x"},
}
LISTED = (TOOLS, PROMPTS, RESOURCES)
SHOWN = (SERVERS, REMOTE, PRESETS, ACTIVE)
REQUESTED = (*LISTED, *SHOWN, "/internal/mcp/limits")
ROUTES = [*(("POST", path) for path in POSTED), *(("GET", path) for path in REQUESTED)]
OPEN = ("/health", "/health/ready", "/metrics")

CONFIG = Config(
    presets=[make_preset()],
    agents=[make_agent("reader"), make_agent("blind", exclude=["read_doc_metadata"])],
)


@pytest.fixture(params=MODES)
async def authenticated(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Service, MakeToken]]:
    """A service that requires tokens, and a function that creates one."""
    settings, mint = MODES[request.param]
    async with started(**settings()) as service:
        yield service, mint


@asynccontextmanager
async def started(**settings: Any) -> AsyncIterator[Service]:
    """Start with a document of the same id in two tenants."""
    documents = [make_document(tenant_id=f"tenant_{n}", title=f"Of {n}") for n in (1, 2)]
    async with running(*documents, config=CONFIG, require_agent=False, **settings) as service:
        yield service


async def send(
    service: Service,
    path: str = EXECUTE,
    headers: dict[str, str] | None = None,
    **fields: object,
) -> httpx.Response:
    """Send a request; ``fields`` go into the body or the query."""
    if service.gateway.tokens is not None:
        await service.gateway.tokens.load()  # just written to the file
    if path in POSTED:
        return await service.http.post(path, json={**POSTED[path], **fields}, headers=headers)
    return await service.http.get(
        path, params={k: str(v) for k, v in fields.items()}, headers=headers
    )


def code_of(response: httpx.Response) -> str:
    body: Envelope = response.json()
    return body["error"]["code"] if body.get("status") == "error" else "OK"


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, code_of(response)


async def test_every_route_refuses_a_request_without_a_token(
    authenticated: tuple[Service, MakeToken],
) -> None:
    for method, path in ROUTES:
        response = await send(
            authenticated[0], path, **({"user": USER} if method == "POST" else {})
        )
        assert (refusal(response), response.headers["WWW-Authenticate"]) == (
            (401, "UNAUTHENTICATED"),
            "Bearer",
        ), path


async def test_an_invalid_token_is_refused_as_invalid(
    authenticated: tuple[Service, MakeToken],
) -> None:
    token = authenticated[1]()[:-6] + "AAAAAA"
    for method, path in ROUTES:
        body = {"user": USER} if method == "POST" else {}
        response = await send(authenticated[0], path, bearer(token), **body)
        assert (
            refusal(response),
            response.headers["WWW-Authenticate"],
            token[-20:] in response.text,
        ) == ((401, "UNAUTHENTICATED"), 'Bearer error="invalid_token"', False), path


async def test_probes_need_no_token(authenticated: tuple[Service, MakeToken]) -> None:
    for path in OPEN:
        assert (await send(authenticated[0], path)).status_code == 200, path


async def test_a_valid_token_can_read_the_lists(authenticated: tuple[Service, MakeToken]) -> None:
    service, mint = authenticated
    headers = bearer(mint())
    for path in LISTED + SHOWN:
        assert (await send(service, path, headers)).status_code == 200, path


async def test_a_token_reads_its_own_tenants_document(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    for number in (1, 2):
        token = mint(tenant=f"tenant_{number}", user="u")
        result = (await send(service, headers=bearer(token))).json()["result"]
        assert (result["title"], result["tenant_id"]) == (f"Of {number}", f"tenant_{number}")


@pytest.mark.parametrize("where", ["body", "header"])
async def test_a_tenant_other_than_the_tokens_is_forbidden_on_every_route(
    authenticated: tuple[Service, MakeToken], where: str
) -> None:
    service, mint = authenticated
    headers = bearer(mint())
    if where == "header":
        headers["X-Tenant-Id"] = "tenant_2"
    for path in (*POSTED, *LISTED):
        fields: dict[str, object] = {}
        if where == "body" and path in POSTED:
            fields = {"user": {"user_id": "u", "tenant_id": "tenant_2"}}
        elif where == "body":
            fields = {"tenant_id": "tenant_2"}
        response = await send(service, path, headers, **fields)
        found = refusal(response), "tenant_1" in response.text
        assert found == ((403, "FORBIDDEN"), False), path


async def test_an_agent_outside_the_token_is_forbidden_on_every_route(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    headers = bearer(mint(user="u", agents=("blind",)))
    for path in (*POSTED, *LISTED):
        refused = await send(service, path, headers, agent="reader")
        assert refusal(refused) == (403, "FORBIDDEN"), path


async def test_the_only_agent_of_a_token_applies_to_every_call(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    codes = [
        code_of(await send(service, headers=bearer(mint(tenant=tenant, user="u", agents=(agent,)))))
        for tenant in ("tenant_1", "tenant_2")
        for agent in ("reader", "blind")
    ]
    assert codes == ["OK", "TOOL_NOT_ALLOWED"] * 2


async def test_the_only_agent_of_a_token_narrows_its_lists(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    tools = {
        agent: [
            tool["name"]
            for tool in (await send(service, TOOLS, bearer(mint(agents=(agent,))))).json()["tools"]
        ]
        for agent in ("reader", "blind")
    }
    assert set(tools["reader"]) - set(tools["blind"]) == {"read_doc_metadata"}


async def test_a_token_for_several_agents_needs_an_agent_in_the_request(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    headers = bearer(mint(user="u", agents=("reader", "blind")))
    named = headers | {"X-Agent-Id": "reader"}
    codes = [code_of(await send(service, headers=one)) for one in (headers, named)]
    assert codes == ["AGENT_REQUIRED", "OK"]


async def test_a_token_without_a_user_needs_a_user_in_the_request(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    headers = bearer(mint())
    nameless = await send(service, headers=headers)
    named = await send(service, headers=headers, user={"user_id": "u"})
    assert (nameless.json()["error"]["details"], nameless.status_code, code_of(named)) == (
        {"field": "user.user_id"},
        422,
        "OK",
    )


async def test_a_user_other_than_the_tokens_is_forbidden(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    response = await send(service, headers=bearer(mint(user="v")), user=USER)
    assert refusal(response) == (403, "FORBIDDEN")


async def test_roles_in_the_body_do_not_extend_the_token(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    response = await send(service, headers=bearer(mint()), user={**USER, "roles": ["admin"]})
    assert refusal(response) == (403, "FORBIDDEN")


async def test_the_body_can_select_among_the_roles_of_the_token(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    headers = bearer(mint(roles=("r1", "r2")))
    answers = [
        await send(service, headers=headers, user={**USER, "roles": roles})
        for roles in ([], ["r1"], ["r1", "r3"])
    ]
    assert [refusal(it) for it in answers] == [(200, "OK"), (200, "OK"), (403, "FORBIDDEN")]


async def test_a_token_that_asserts_users_takes_them_from_the_body_but_no_other_tenant() -> None:
    async with started(**token_settings()) as service:
        headers = bearer(file_token(asserts_users=True))
        user = {**USER, "roles": ["any"]}
        responses = [
            await send(service, headers=headers, user=named)
            for named in (user, {**user, "tenant_id": "tenant_2"})
        ]
    assert [refusal(response) for response in responses] == [(200, "OK"), (403, "FORBIDDEN")]


async def test_a_token_is_checked_before_a_malformed_body(
    authenticated: tuple[Service, MakeToken],
) -> None:
    service, mint = authenticated
    user = {**USER, "user_id": 7}
    answers = [await send(service, headers=it, user=user) for it in (None, bearer(mint()))]
    assert [refusal(it) for it in answers] == [(401, "UNAUTHENTICATED"), (422, "INVALID_REQUEST")]


async def test_an_operator_token_cannot_run_tools(authenticated: tuple[Service, MakeToken]) -> None:
    service, mint = authenticated
    headers = bearer(mint(tenant=None, admin=True))
    answers = [await send(service, headers=headers, user=user) for user in (None, USER)]
    assert [refusal(answer) for answer in answers] == [(403, "FORBIDDEN")] * 2


SWITCHES: tuple[tuple[dict[str, Any], int], ...] = (
    ({}, 403),
    ({"may": {*OperatorRight} - {OperatorRight.PRESETS}}, 403),
    ({"may": [OperatorRight.PRESETS]}, 200),
    ({"admin": True}, 200),
)
"""Rights of a token, and the status of a preset switch with it."""


async def test_only_an_operator_switches_presets(authenticated: tuple[Service, MakeToken]) -> None:
    service, mint = authenticated
    for rights, status in SWITCHES:
        headers = bearer(mint(**rights))
        await send(service, TOOLS, headers)
        response = await service.http.put(ACTIVE, json={"preset_id": "work"}, headers=headers)
        assert response.status_code == status, rights


async def test_switching_presets_needs_an_operator_on_loopback_too(
    authenticated: tuple[Service, MakeToken],
) -> None:
    response = await authenticated[0].http.put(ACTIVE, json={"preset_id": "work"})
    assert refusal(response) == (401, "UNAUTHENTICATED")


@pytest.mark.parametrize("mode", MODES)
async def test_the_admin_token_is_an_operator_in_every_mode(mode: str) -> None:
    settings, _ = MODES[mode]
    async with started(**settings(), admin_token="correct-horse-battery") as service:
        headers = bearer("correct-horse-battery")
        switched = await service.http.put(ACTIVE, json={"preset_id": "work"}, headers=headers)
        shown = await send(service, PRESETS, headers)
        used = await send(service, headers=headers, user=USER)
        assert (switched.status_code, shown.status_code, used.status_code) == (200, 200, 403)


@pytest.mark.parametrize("mode", MODES)
async def test_readiness_reports_the_state_of_the_tokens(mode: str) -> None:
    settings, mint = MODES[mode]
    made = settings()
    mint()
    async with started(**made) as service:
        before = (await service.get("/health/ready"))["checks"]["tokens"]["status"]
        (made.get("tokens_file") or made["jwt_jwks_file"]).unlink()
        tokens = service.gateway.tokens
        assert tokens is not None
        await tokens.load()
        after = await service.get("/health/ready")
        assert (before, after["status"], after["checks"]["tokens"]["status"]) == (
            "ok",
            "degraded",
            "degraded",
        )


async def test_a_refused_caller_is_logged_and_counted() -> None:
    async with started(**token_settings()) as service:
        await send(service, user=USER)
        await send(service, TOOLS)
        exposition = (await service.http.get("/metrics")).text
        assert 'mcp_proxy_requests_refused_total{code="UNAUTHENTICATED"} 2.0' in exposition
