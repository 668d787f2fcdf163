import pytest
from aiohttp import web

from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from tests.downstream.connections import config_of
from tests.support.captured_logs import capture_logs
from tests.support.mcp_servers.raw_web import RawServer, running_raw

SECRET = "replica-7-s3cret"


def balance(server: RawServer, cookie: str) -> list[str]:
    """Set a cookie on each response without one; return the cookies of all requests."""
    sent: list[str] = []

    def add(request: web.Request, response: web.StreamResponse) -> None:
        sent.append(request.headers.get("Cookie", ""))
        if SECRET not in sent[-1]:
            response.headers["Set-Cookie"] = cookie

    server.on_response = add
    return sent


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("transport", ["http", "sse"])
@pytest.mark.parametrize("configured", [{}, {"cookie": "own=1"}])
async def test_a_cookie_is_kept_for_the_connection(
    transport: str, era: str, configured: dict[str, str]
) -> None:
    async with running_raw(transport, era=era) as server, Dialer() as dialer:
        sent = balance(server, f"lb={SECRET}; Path=/; HttpOnly")
        config = config_of({**server.entry, "headers": configured})
        with capture_logs() as logs:
            for _ in range(2):  # the second connection begins without the cookie
                sent.clear()
                async with dialer.dial(config, lambda: None) as link:
                    await link.request("tools/list", {}, timeout_s=10)
                own = "own=1" if configured else ""
                assert sent[0] == own
                expected = f"own=1; lb={SECRET}" if configured else f"lb={SECRET}"
                assert sent[-1] == expected
        assert SECRET not in str(logs)


@pytest.mark.parametrize(
    "cookie", [f"lb={SECRET}; Domain=example.com", f"lb={SECRET}; Path=/other"]
)
async def test_a_cookie_for_another_origin_or_path_is_not_kept(cookie: str) -> None:
    async with running_raw("http") as server, Dialer() as dialer:
        sent = balance(server, cookie)
        async with dialer.dial(config_of(server.entry), lambda: None) as link:
            await link.request("tools/list", {}, timeout_s=10)
        assert set(sent) == {""}
