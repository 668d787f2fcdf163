import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.server import Transport
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.http_endpoint import MAX_REDIRECTS
from tests.downstream.connections import dialled
from tests.downstream.stub_server import Json
from tests.e2e.check_command import check
from tests.support.bounds import BOUND_S, until
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import RawServer, running_raw
from tests.support.mcp_servers.threaded_server import running_server
from tests.support.service import SERVERS, eventually, running

NAMED = 'points to "http://other.example:1/a/b"'
SECRETS = ("us3r", "pa55", "t0ken", "fr4gment")
ELSEWHERE = "http://us3r:pa55@other.example:1/a/b?key=t0ken#fr4gment"


class Sent:
    """The received requests, and redirects from path to path."""

    def __init__(self, moves: dict[str, str], status: int = 307) -> None:
        self.moves = moves
        self.removed: set[str] = set()
        self.met: list[tuple[str, str]] = []
        """Method and path of each request that was redirected or not found."""
        self.taken: list[web.Request] = []
        self._status = status

    def __call__(self, request: web.Request) -> web.Response | None:
        if request.path in self.removed:
            self.met.append((request.method, request.path))
            return web.Response(status=404)
        if (target := self.moves.get(request.path)) is None:
            self.taken.append(request)
            return None
        self.met.append((request.method, request.path))
        return web.Response(status=self._status, headers={"Location": target})


def entry_at(server: RawServer, path: str, **more: object) -> Json:
    return {**server.entry, "url": server.url.replace("/mcp", path), **more}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_mounted_application_is_reached_without_its_trailing_slash(era: str) -> None:
    async with (
        running_server("http", path="/mcp/", era=era) as server,
        dialled({"transport": "http", "url": server.url.removesuffix("/")}) as line,
    ):
        assert line.link.transport is Transport.STREAMABLE_HTTP
        assert (await line.link.request("tools/list", {}, timeout_s=60))["tools"]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("target", ["/mcp", "//HOST/mcp", "http://HOST/mcp"])
async def test_a_redirect_keeps_method_body_and_headers(status: int, target: str) -> None:
    async with running_raw("http", era="legacy") as server:
        host = f"127.0.0.1:{server.port}"
        sent = server.instead = Sent({"/start": target.replace("HOST", host)}, status)
        async with dialled(entry_at(server, "/start", headers={"X-Api-Key": "k"})) as line:
            answer = await line.call("echo", text="x")
            assert answer["structuredContent"] == {"text": "x"}
            await until(lambda: "GET" in {request.method for request in sent.taken}, "it listens")
        assert {request.method for request in sent.taken} == {"POST", "GET", "DELETE"}
        assert {request.headers["X-Api-Key"] for request in sent.taken} == {"k"}
        sessions = {request.headers.get("Mcp-Session-Id") for request in sent.taken[2:]}
        assert len(sessions) == 1


async def test_a_redirects_target_is_remembered_and_a_later_change_is_followed() -> None:
    async with running_raw("http", era="modern", list_changed=False) as server:
        sent = server.instead = Sent({"/start": "/mcp"})
        async with dialled(entry_at(server, "/start")) as line:
            for _ in range(10):
                await line.call("echo", text="x")
            assert sent.met == [("POST", "/start")]
            sent.moves["/mcp"] = "/moved"  # it is redirected once more
            await line.call("echo", text="x")
            assert sent.met[1:] == [("POST", "/mcp")]
            sent.moves = {"/start": "/mcp"}  # the remembered path no longer exists
            sent.removed = {"/moved"}
            await line.call("echo", text="x")
            assert sent.met[2:] == [("POST", "/moved"), ("POST", "/start")]


async def test_the_addresses_of_legacy_sse_are_redirected_too() -> None:
    async with running_raw("sse", era="legacy") as server:
        moves = {"/start": "/mcp", "/mcp/message": "/moved/message?sessionId=SESSION"}
        sent = server.instead = Sent(moves)

        def keep_the_session(request: web.Request) -> web.Response | None:
            moves["/mcp/message"] = f"/moved/message?{request.query_string}"
            return sent(request)

        server.instead = keep_the_session
        async with dialled(entry_at(server, "/start")) as line:
            for _ in range(5):
                await line.call("echo", text="x")
        assert sent.met == [("GET", "/start"), ("POST", "/mcp/message")]


async def test_the_user_and_password_of_the_entry_are_kept() -> None:
    async with running_raw("http", era="modern", list_changed=False) as server:
        host = f"127.0.0.1:{server.port}"
        sent = server.instead = Sent({"/start": f"http://us3r:pa55@{host}/mcp"})
        url = f"http://mine:own@{host}/start"
        async with dialled({"transport": "http", "url": url}):
            pass
        assert {request.headers["Authorization"] for request in sent.taken} == {
            "Basic bWluZTpvd24="
        }


def chain(length: int) -> dict[str, str]:
    moves = {f"/{n}": f"/{n + 1}" for n in range(length - 1)}
    return moves | {f"/{length - 1}": "/mcp"}


async def test_three_redirects_in_a_row_are_followed() -> None:
    async with running_raw("http", list_changed=False) as server:
        server.instead = Sent(chain(MAX_REDIRECTS))
        async with dialled(entry_at(server, "/0")) as line:
            assert (await line.call("echo", text="x"))["structuredContent"] == {"text": "x"}


LOOP = {"/0": "/0"}
REFUSED: dict[str, tuple[Callable[[], Sent], str]] = {
    "four": (lambda: Sent(chain(MAX_REDIRECTS + 1)), 'more than 3 times, last to "http://'),
    "loop": (lambda: Sent(LOOP), "more than 3 times"),
    "other-host": (lambda: Sent({"/0": ELSEWHERE}), NAMED),
    "other-host-308": (lambda: Sent({"/0": ELSEWHERE}, 308), NAMED),
    "other-host-301": (lambda: Sent({"/0": ELSEWHERE}, 301), NAMED),
    "same-server-301": (lambda: Sent({"/0": "/mcp"}, 301), '/mcp"; if that is correct'),
    "same-server-302": (lambda: Sent({"/0": "/mcp"}, 302), '/mcp"; if that is correct'),
    "same-server-303": (lambda: Sent({"/0": "/mcp"}, 303), '/mcp"; if that is correct'),
    "other-port": (lambda: Sent({"/0": "http://127.0.0.1:1/mcp"}), '"http://127.0.0.1:1/mcp"'),
    "link-local": (lambda: Sent({"/0": "http://169.254.169.254/latest/"}), '"http://169.254.'),
    "link-local-307": (lambda: Sent({"/0": "http://[fe80::1]/mcp"}, 307), '"http://[fe80::1]'),
    "metadata-name": (lambda: Sent({"/0": "http://0xa9fea9fe/"}, 308), '"http://0xa9fea9fe'),
    "other-scheme": (lambda: Sent({"/0": "https://127.0.0.1/mcp"}), '"https://127.0.0.1/mcp"'),
    "second": (lambda: Sent({"/0": "/1", "/1": ELSEWHERE}), NAMED),
    "no-address": (lambda: Sent({"/0": "http://[oops"}), "an address that cannot be read"),
    "no-http": (lambda: Sent({"/0": "mailto:us3r@x"}), "an address that cannot be read"),
    "long": (lambda: Sent({"/0": "http://x/" + "y" * 5000}), "y…"),
}


@pytest.mark.parametrize(("sent", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_any_other_redirect_is_refused_with_its_target(
    transport: str, sent: Callable[[], Sent], words: str
) -> None:
    async with running_raw("sse" if transport == "sse" else "http") as server:
        instead = server.instead = sent()
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled(entry_at(server, "/0", transport=transport)):
                pass
        assert instead.taken == []
    fault = caught.value
    assert "redirects to another address are not followed" in fault.reason
    assert words in fault.for_operators
    assert len(fault.for_operators) < 600
    assert not [secret for secret in SECRETS if secret in fault.for_operators]
    assert words not in fault.reason


async def test_a_redirected_websocket_is_refused_with_its_target() -> None:
    async with running_raw("ws") as server:
        server.instead = Sent({"/0": ELSEWHERE})
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled(entry_at(server, "/0")):
                pass
    assert NAMED in caught.value.for_operators
    assert "example" not in caught.value.reason


async def test_only_operators_see_the_target_of_a_redirect() -> None:
    async with running_raw("http", era="modern") as server:
        preset = make_preset(tools=[("s1", "echo")])
        entry = {**server.entry, "connectTimeoutSeconds": 60}
        with capture_logs() as logs:
            async with running(config=Config(servers={"s1": entry}, presets=[preset])) as service:
                assert await service.code("s1:echo", {"text": "x"}) == "OK"
                server.instead = Sent({"/mcp": ELSEWHERE})
                server.drop_connections()

                async def is_named() -> bool:
                    (status,) = (await service.get(SERVERS))["servers"]
                    return NAMED in (status.get("last_error") or "")

                async with asyncio.timeout(BOUND_S):
                    while not await is_named():
                        error = (await service.execute("s1:echo", {"text": "x"}))["error"]
                        assert error["code"] == "SERVER_UNAVAILABLE"
                        assert "example" not in str(error)
                error = (await service.execute("s1:echo", {"text": "x"}))["error"]
                assert "redirects to another address are not followed" in error["message"]
                assert "example" not in str(error)
    failed = [log["reason"] for log in logs if log["event"] == "server.connect_failed"]
    assert any(NAMED in reason for reason in failed)
    assert not [secret for secret in SECRETS if secret in str(logs)]


@pytest.mark.e2e
async def test_check_shows_the_target_of_a_redirect(tmp_path: Path) -> None:
    async with running_raw("http") as server:
        server.instead = Sent({"/mcp": ELSEWHERE})
        Config(servers={"s1": server.entry}, presets=[make_preset()]).write(tmp_path / "config")
        code, out, _ = await asyncio.to_thread(check)
    assert code == 1
    assert NAMED in " ".join(out.split())
    assert not [secret for secret in SECRETS if secret in out]


async def test_the_last_error_is_that_of_the_attempt_that_got_furthest() -> None:
    async with running_raw("sse") as server:  # which answers 405 to the POST of streamable HTTP
        server.instead = Sent({"/mcp/message": ELSEWHERE})
        preset, entry = make_preset(), entry_at(server, "/mcp", transport="http")
        async with running(config=Config(servers={"s1": entry}, presets=[preset])) as service:

            async def is_named() -> bool:
                (status,) = (await service.get(SERVERS))["servers"]
                return NAMED in (status.get("last_error") or "")

            await eventually(is_named)
