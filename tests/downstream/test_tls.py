"""TLS towards servers and Retrieval: whom it trusts, and what it says of bad certificates."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from mcp_tools_proxy.documents.retrieval.retrieval_client import RetrievalClient
from mcp_tools_proxy.domain.errors import RetrievalUnavailable
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.downstream.connections import dialled
from tests.e2e.check_command import check
from tests.support.bounds import BOUND_S
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.remote_backend.certificates import Certified, certify
from tests.unit.documents.retrieval_answers import fetch_window

LOCALHOST = "127.0.0.1"
CHUNK = {"chunk_id": "c1", "page": 1, "chunk_index": 1, "text": "x"}

transports = pytest.mark.parametrize("transport", ["http", "sse", "ws"])


async def checked(
    folder: Path, certified: Certified, transport: str, *, trusted: Path | None, host: str
) -> tuple[int, str]:
    """Run ``check`` in front of a server with this certificate; give its code and output."""
    async with running_raw(transport, host=host, tls=certified.tls) as server:
        Config(servers={"s1": server.entry}, presets=[make_preset()]).write(folder / "config")
        environment = {} if trusted is None else {"SSL_CERT_FILE": str(trusted)}
        # aiohttp reads SSL_CERT_FILE when it is imported, which is before the tests fork
        code, out, _ = await asyncio.to_thread(check, environment=environment, fresh=True)
    return code, " ".join(out.split())


@pytest.mark.e2e
@transports
async def test_a_server_of_an_authority_of_ones_own_is_served(
    tmp_path: Path, transport: str
) -> None:
    certified = certify(tmp_path)
    code, out = await checked(
        tmp_path, certified, transport, trusted=certified.ca_file, host=LOCALHOST
    )
    assert (code, "All is well." in out) == (0, True)


@pytest.mark.e2e
@transports
async def test_an_unknown_authority_is_told_with_what_to_do(tmp_path: Path, transport: str) -> None:
    certified = certify(tmp_path)
    code, out = await checked(tmp_path, certified, transport, trusted=None, host=LOCALHOST)
    assert code == 1
    assert "TLS certificate was not accepted: unable to get local issuer certificate" in out
    assert "SSL_CERT_FILE" in out


@pytest.mark.e2e
async def test_an_expired_certificate_is_told(tmp_path: Path) -> None:
    certified = certify(tmp_path, expired=True)
    code, out = await checked(
        tmp_path, certified, "http", trusted=certified.ca_file, host=LOCALHOST
    )
    assert (code, "SSL_CERT_FILE" in out) == (1, False)
    assert "TLS certificate was not accepted: certificate has expired" in out


@pytest.mark.e2e
async def test_a_certificate_of_another_host_is_told(tmp_path: Path) -> None:
    certified = certify(tmp_path, host="127.0.0.2")
    code, out = await checked(
        tmp_path, certified, "http", trusted=certified.ca_file, host=LOCALHOST
    )
    assert code == 1
    assert "TLS certificate was not accepted: IP address mismatch" in out


@pytest.mark.e2e
async def test_a_server_on_an_ipv6_address_is_served_over_tls(tmp_path: Path) -> None:
    certified = certify(tmp_path, host="::1")
    code, out = await checked(tmp_path, certified, "http", trusted=certified.ca_file, host="::1")
    assert (code, "All is well." in out) == (0, True)


async def test_callers_are_told_no_more_than_that_it_was_not_accepted(tmp_path: Path) -> None:
    async with running_raw("http", tls=certify(tmp_path).tls) as server:
        with pytest.raises(ConnectionFailure) as caught:
            async with dialled(server.entry):
                pass
    assert caught.value.reason == "the server's TLS certificate was not accepted"


async def request_window(tls: ssl.SSLContext, *, host: str = LOCALHOST) -> None:
    """Ask a Retrieval Service with this certificate for a window."""

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
async def test_a_retrieval_service_of_an_authority_of_ones_own_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    certified = certify(tmp_path, host=host)
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.ca_file))
    await request_window(certified.tls, host=host)


@pytest.mark.parametrize(
    ("trusted", "expired", "words"),
    [(False, False, "local issuer"), (True, True, "certificate has expired")],
)
async def test_a_bad_certificate_of_retrieval_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool, expired: bool, words: str
) -> None:
    certified = certify(tmp_path, expired=expired)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certified.ca_file))
    with capture_logs() as logs, pytest.raises(RetrievalUnavailable) as caught:
        await request_window(certified.tls)
    assert words in next(log["reason"] for log in logs if log["event"] == "retrieval.untrusted")
    assert "certificate" not in caught.value.message
