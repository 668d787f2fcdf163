import asyncio
from pathlib import Path

import pytest

from tests.connector.backend_link import dialling
from tests.connector.link_checks import pauses, until_state, until_tried
from tests.connector.raw_listener import listening
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.certificates import Certified, certify
from tests.support.service import REMOTE, running

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return certify(tmp_path)


@pytest.fixture
def another(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate of another authority."""
    return certify(tmp_path_factory.mktemp("another"))


@pytest.fixture
def of_another_host(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certify(tmp_path_factory.mktemp("host"), host="127.0.0.2")


async def test_a_backend_with_a_trusted_authority_is_served(certified: Certified) -> None:
    async with (
        running_backend(tls=certified.tls) as backend,
        dialling(backend, remote_ca_file=certified.ca_file),
    ):
        await backend.connected()
        assert (await backend.session().result("tools/list"))["tools"]


async def test_a_broken_tls_link_is_restored_in_time(certified: Certified) -> None:
    async with (
        running_backend(tls=certified.tls) as backend,
        dialling(backend, remote_ca_file=certified.ca_file),
    ):
        (await backend.connected()).drop()
        await backend.connected(count=2)
        assert (await backend.session().result("tools/list"))["tools"]


async def test_an_authority_that_is_not_set_is_not_trusted(certified: Certified) -> None:
    async with running_backend(tls=certified.tls) as backend, dialling(backend) as service:
        status = await until_state(service, "offline")
        assert status["last_error"].startswith("the backend's certificate is not trusted: ")
        assert "local issuer" in status["last_error"]


async def test_a_configured_authority_replaces_the_others(
    certified: Certified, another: Certified
) -> None:
    async with (
        running_backend(tls=certified.tls) as backend,
        dialling(backend, remote_ca_file=another.ca_file) as service,
    ):
        status = await until_state(service, "offline")
        assert "certificate is not trusted" in status["last_error"]
        assert not backend.handshakes


async def test_a_certificate_for_another_host_is_not_trusted(of_another_host: Certified) -> None:
    async with (
        running_backend(tls=of_another_host.tls) as backend,
        dialling(backend, remote_ca_file=of_another_host.ca_file) as service,
    ):
        status = await until_state(service, "offline")
        assert "127.0.0.1" in status["last_error"]
        assert not backend.handshakes


async def test_pauses_before_dialling_an_untrusted_backend_are_long(
    certified: Certified,
) -> None:
    with capture_logs() as lines:
        async with running_backend(tls=certified.tls) as backend, dialling(backend) as service:
            await until_tried(service, 2)
            await until_state(service, "offline")
    first, second = pauses(lines)
    assert (first >= 0.5, second >= 1.0) == (True, True)


async def test_a_listener_without_tls_is_not_sent_the_token() -> None:
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read(10_000))
        writer.write(HTTP)
        await writer.drain()

    async with (
        listening(listen) as listener,
        running(remote_url=listener.url("wss"), remote_token="secret-token") as service,
    ):
        status = await until_state(service, "offline")
        assert status["last_error"] == "could not be reached: TLS failed"
        assert (len(received) > 0, b"secret-token" in received, b"GET" in received) == (
            True,
            False,
            False,
        )


async def test_a_listener_that_closes_during_the_tls_handshake_counts_as_unreachable() -> None:
    async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(10_000)

    async with (
        listening(hang_up) as listener,
        running(remote_url=listener.url("wss"), remote_token="secret-token") as service,
    ):
        await until_state(service, "offline")
        await listener.dialled(4)
        assert (await service.get(REMOTE))["last_error"].startswith("could not be reached: ")
