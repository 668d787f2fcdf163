"""Many invalid tokens from one address are refused without affecting valid ones."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from mcp_tools_proxy.telemetry.audit.audit_trail import MOST_RECORDED
from mcp_tools_proxy.telemetry.recorder import Bound
from tests.support.bounds import BOUND_S
from tests.support.builders import make_document
from tests.support.captured_logs import capture_logs
from tests.support.service import EXECUTE, READY, TOOLS, Service, running
from tests.support.signing import SigningKey, make_key
from tests.support.tokens import KEY, MODES, MakeToken, bearer

READ: dict[str, object] = {
    "tool_name": "read_doc_metadata",
    "arguments": {"doc_id": "doc"},
}
MAX_REFUSED = MOST_RECORDED[Bound.UNAUTHENTICATED]
STRANGER = SigningKey(KEY.kid, "ES256", make_key("ES256", "stranger").private)
BAD = {"token": "mtp_" + "x" * 43, "jwt": STRANGER.sign()}
"""The JWT has the required claims and a foreign signature."""


class Attacked:
    """A service that has refused the maximum of individually recorded tokens of this address."""

    def __init__(self, service: Service, make: MakeToken, bad: str, seen: str) -> None:
        self.service = service
        self.http = service.http
        self.make = make
        self.bad = bad
        self.seen = seen

    async def load(self) -> None:
        assert self.service.gateway.tokens is not None
        await self.service.gateway.tokens.load()

    async def status(self, token: str) -> int:
        return (await self.http.post(EXECUTE, json=READ, headers=bearer(token))).status_code


@pytest.fixture(params=MODES)
async def attacked(request: pytest.FixtureRequest) -> AsyncIterator[Attacked]:
    settings, make = MODES[request.param]
    async with running(make_document(tenant_id="tenant_1"), **settings()) as service:
        attack = Attacked(service, make, BAD[request.param], make(user="seen"))
        await attack.load()
        assert await attack.status(attack.seen) == 200
        with capture_logs() as lines:
            for _ in range(MAX_REFUSED):
                assert "Retry-After" not in (await bad_call(attack)).headers
        assert [line["event"] for line in lines] == ["request.refused"] * MAX_REFUSED
        yield attack


async def bad_call(attack: Attacked, path: str = EXECUTE, **headers: str) -> httpx.Response:
    return await attack.http.post(path, json=READ, headers=bearer(attack.bad, **headers))


@pytest.mark.parametrize("path", [EXECUTE, "/mcp", "/mcp/sse", "/mcp/agents/x"])
async def test_the_next_invalid_token_has_to_wait(attacked: Attacked, path: str) -> None:
    response = await bad_call(attacked, path, **{"X-Trace-Id": "t-1"})
    body = response.json()
    error = body["error"] if path == EXECUTE else body["error"]["data"]
    assert (response.status_code, error["code"]) == (401, "UNAUTHENTICATED")
    assert 0 < int(response.headers["Retry-After"]) <= 60
    assert response.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'
    assert response.headers["X-Trace-Id"] == "t-1"


async def test_the_body_of_a_throttled_request_is_not_read(attacked: Attacked) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 1000
            await asyncio.sleep(0)

    headers = bearer(attacked.bad)
    read = 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal read
        async for part in endless():
            read += len(part)
            yield part

    async def call() -> int:
        return (await attacked.http.post(EXECUTE, content=counted(), headers=headers)).status_code

    assert (await asyncio.wait_for(call(), BOUND_S), read) == (401, 0)


async def test_a_valid_token_that_was_used_before_passes(attacked: Attacked) -> None:
    assert await attacked.status(attacked.seen) == 200


async def test_a_valid_token_that_was_never_used_passes(attacked: Attacked) -> None:
    token = attacked.make(user="another")
    await attacked.load()
    assert await attacked.status(token) == 200


async def test_valid_tokens_pass_among_a_thousand_invalid_ones(attacked: Attacked) -> None:
    fresh = [attacked.make(user=f"u-{number}") for number in range(10)]
    await attacked.load()
    tokens = [*([attacked.bad] * 1000), *fresh, *([attacked.seen] * 10)]
    tokens = [tokens[number * 331 % len(tokens)] for number in range(len(tokens))]
    statuses = [await attacked.status(token) for token in tokens]
    wrong = [
        status
        for token, status in zip(tokens, statuses, strict=True)
        if status != (401 if token == attacked.bad else 200)
    ]
    assert (len(tokens), wrong) == (1020, [])


async def test_probes_are_answered_with_any_token(attacked: Attacked) -> None:
    response = await attacked.http.get(READY, headers=bearer(attacked.bad))
    assert response.status_code == 200


async def test_requests_without_a_token_are_not_throttled(attacked: Attacked) -> None:
    response = await attacked.http.get(TOOLS)
    assert (response.status_code, "Retry-After" in response.headers) == (401, False)


async def test_another_address_is_not_affected() -> None:
    settings, _ = MODES["token"]
    async with running(**settings(), trusted_proxies=("127.0.0.0/8",)) as service:

        async def call(peer: str) -> bool:
            headers = bearer(BAD["token"], **{"X-Forwarded-For": peer})
            return "Retry-After" in (await service.http.get(TOOLS, headers=headers)).headers

        waits = [await call("203.0.113.7") for _ in range(MAX_REFUSED + 1)]
        assert waits == [False] * MAX_REFUSED + [True]
        assert [await call(peer) for peer in ("203.0.113.8", "2001:db8::1")] == [False, False]


async def test_a_jwt_with_a_newly_published_key_passes() -> None:
    settings, _ = MODES["jwt"]
    async with running(make_document(tenant_id="tenant_1"), **settings()) as service:
        for _ in range(MAX_REFUSED + 5):
            await service.http.post(EXECUTE, json=READ, headers=bearer(BAD["jwt"]))
        token = KEY.sign(jti="new")
        response = await service.http.post(EXECUTE, json=READ, headers=bearer(token))
    assert response.status_code == 200
