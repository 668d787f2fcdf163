"""Two gateways with one identifier evict each other at the backend without dialling rapidly."""

import pytest

from tests.connector.backend_link import GATEWAY, dialling
from tests.connector.link_checks import pauses, until_state
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.stub_gateway import standing_in
from tests.support.service import READY, REMOTE, eventually


@pytest.mark.parametrize(("evict_code", "least"), [(4409, 0.5), (None, 0.125)])
async def test_pauses_of_two_gateways_that_evict_each_other_grow(
    evict_code: int | None, least: float
) -> None:
    with capture_logs() as lines:

        async def paused_twice() -> bool:
            return len(pauses(lines)) >= 4

        async with (
            running_backend(evict_code=evict_code) as backend,
            dialling(backend) as first,
            dialling(backend) as second,
        ):
            await eventually(paused_twice)
            for service in (first, second):
                assert (await service.http.get(READY)).status_code == 200
    assert [pause >= least for pause in pauses(lines)[:2]] == [True, True]
    assert [pause >= 2 * least for pause in pauses(lines)[2:4]] == [True, True]


async def test_the_status_has_the_close_code_of_an_eviction() -> None:
    async with running_backend() as backend, dialling(backend) as service:
        await backend.connected()
        async with standing_in(backend.url, server_identifier=GATEWAY):
            status = await until_state(service, "offline")
            assert status["last_error"] == "the backend closed the link with code 4409"


async def test_an_evicted_gateway_keeps_its_sessions_and_serves_them_after_reconnecting() -> None:
    async with running_backend() as backend, dialling(backend) as service:
        await backend.connected()
        session = backend.session()
        await session.initialize()
        async with standing_in(backend.url, server_identifier=GATEWAY):
            await until_state(service, "offline")
        await backend.connected(count=3)
        assert (await session.result("tools/list"))["tools"]
        assert (await service.get(REMOTE))["links"] == 2
