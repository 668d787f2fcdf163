import asyncio
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from mcp_tools_proxy.documents.retrieval_client import RetrievalClient
from mcp_tools_proxy.domain.errors import RetrievalUnavailable
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.downstream.connections import dialled
from tests.e2e.check_command import check
from tests.support.bounds import BOUND_S
from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.remote_backend.certificates import certify
from tests.unit.documents.retrieval_answers import fetch_window

LOCALHOST = "127.0.0.1"
CHUNK = {"chunk_id": "c1", "page": 1, "chunk_index": 1, "text": "x"}


class Made(NamedTuple):
    """A server to check: its transport, address and certificate fault."""

    transport: str
    host: str = LOCALHOST
    certified_for: str | None = None
    expired: bool = False


OVER_EACH_TRANSPORT = [Made("http"), Made("sse"), Made("ws")]


async def checked(folder: Path, servers: Sequence[Made], *, trusted: bool) -> tuple[int, str]:
    """Run ``check`` in front of servers ``s0``, ``s1`` …; return its code and output."""
    entries: dict[str, Json] = {}
    authorities = ""
    async with AsyncExitStack() as stack:
        for number, it in enumerate(servers):
            own = folder / f"s{number}"
            own.mkdir()
            certified = certify(own, it.certified_for or it.host, expired=it.expired)
            running = running_raw(it.transport, host=it.host, tls=certified.tls)
            entries[own.name] = (await stack.enter_async_context(running)).entry
            authorities += certified.ca_file.read_text()
        Config(servers=entries, presets=[make_preset()]).write(folder / "config")
        (folder / "authorities.pem").write_text(authorities)
        environment = {"SSL_CERT_FILE": str(folder / "authorities.pem")} if trusted else {}
        # aiohttp reads SSL_CERT_FILE when imported, which happens before the tests fork
        code, out, _ = await asyncio.to_thread(check, environment=environment, fresh=trusted)
    return code, " ".join(out.split())


@pytest.mark.e2e
async def test_servers_of_a_configured_authority_are_served(tmp_path: Path) -> None:
    servers = [*OVER_EACH_TRANSPORT, Made("http", host="::1")]
    code, out = await checked(tmp_path, servers, trusted=True)
    assert (code, out.endswith(" OK")) == (0, True)


@pytest.mark.e2e
async def test_an_unknown_authority_is_reported_with_a_remedy(tmp_path: Path) -> None:
    code, out = await checked(tmp_path, OVER_EACH_TRANSPORT, trusted=False)
    reason = "TLS certificate was not accepted: unable to get local issuer certificate"
    assert (code, out.count(reason), out.count("SSL_CERT_FILE")) == (1, 3, 3)


@pytest.mark.e2e
async def test_an_expired_certificate_or_one_of_another_host_is_reported(tmp_path: Path) -> None:
    servers = [Made("http", expired=True), Made("http", certified_for="127.0.0.2")]
    code, out = await checked(tmp_path, servers, trusted=True)
    assert (code, "SSL_CERT_FILE" in out) == (1, False)
    assert "TLS certificate was not accepted: certificate has expired" in out
    assert "TLS certificate was not accepted: IP address mismatch" in out


async def test_callers_see_only_that_the_certificate_was_not_accepted(tmp_path: Path) -> None:
    async with running_raw("http", tls=certify(tmp_path).tls) as server:
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled(server.entry):
                pass
    assert caught.value.reason == "the server's TLS certificate was not accepted"


async def request_window(tls: ssl.SSLContext, *, host: str = LOCALHOST) -> None:
    """Request a window from a Retrieval Service with this certificate."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"chunks": [CHUNK]})

    app = web.Application()
    app.router.add_post("/window", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, 0, ssl_context=tls).start()
    shown = f"[{host}]" if ":" in host else host
    url = f"https://{shown}:{runner.addresses[0][1]}/window"
    client = RetrievalClient(url=url, token=None, timeout_s=BOUND_S, metrics=Metrics())
    try:
        await fetch_window(client)
    finally:
        await client.aclose()
        await runner.cleanup()


@pytest.mark.parametrize("host", [LOCALHOST, "::1"])
async def test_a_retrieval_service_of_a_configured_authority_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    certified = certify(tmp_path, host=host)
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.ca_file))
    await request_window(certified.tls, host=host)


@pytest.mark.parametrize(
    ("trusted", "expired", "words"),
    [(False, False, "local issuer"), (True, True, "certificate has expired")],
)
async def test_an_invalid_certificate_of_retrieval_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, expired: bool, words: str
) -> None:
    certified = certify(tmp_path, expired=expired)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certified.ca_file))
    with capture_logs() as logs, pytest.raises(RetrievalUnavailable) as caught:
        await request_window(certified.tls)
    assert words in next(log["reason"] for log in logs if log["event"] == "retrieval.untrusted")
    assert "certificate" not in caught.value.message
