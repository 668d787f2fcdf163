"""The gateway survives each fault of the catalogue, at no more than the stated cost."""

import json
from collections.abc import AsyncIterator
from contextlib import chdir
from typing import NamedTuple

import pytest

from mcp_tools_proxy.telemetry.audit.audit_trail import MOST_RECORDED
from mcp_tools_proxy.telemetry.recorder import REFUSED_SUMMARY, Bound
from tests.connector.backend_link import LinkedToOne, begun
from tests.connector.fault import Fault
from tests.connector.fault_runner import RETRY_MAX_S, check_fault
from tests.connector.frame_faults import ALLOWED, IGNORED, ODD_IDS
from tests.connector.link_checks import events, opened, unharmed
from tests.connector.link_faults import LOST, OUTAGES, OWN_SETTINGS
from tests.connector.raw_frames import KNOWN, TEXT, frame, request
from tests.support.captured_logs import capture_logs
from tests.support.remote_backend.session import ENVELOPE, Session
from tests.support.service import CONFIG_DIR

FAULTS = [*IGNORED, *ALLOWED, *LOST, *OUTAGES]
"""One gateway survives all of these faults, in any order."""


class Shared(NamedTuple):
    """A gateway and a session that outlive all faults."""

    linked: LinkedToOne
    session: Session


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Run the tests and their shared gateway in one event loop."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shared]:
    with chdir(tmp_path_factory.mktemp("gateway")), pytest.MonkeyPatch.context() as patch:
        # without a summary, the log has the reason of each ignored frame to check
        patch.setitem(MOST_RECORDED, Bound.REFUSED, 1_000_000)
        # absolute: the gateway outlives the folder of each test
        options = {"config_dir": CONFIG_DIR.resolve(), "remote_retry_max_s": RETRY_MAX_S}
        async with unharmed("echo", **options) as linked:
            patch.undo()  # for other gateways
            yield Shared(linked, await opened(linked.backend))


@pytest.mark.requirement("W-05")
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
async def test_a_gateway_survives(shared: Shared, fault: Fault) -> None:
    await check_fault(*shared, fault)


@pytest.mark.parametrize("fault", OWN_SETTINGS, ids=[fault.id for fault in OWN_SETTINGS])
async def test_a_gateway_with_other_settings_survives(fault: Fault) -> None:
    settings = {"remote_retry_max_s": RETRY_MAX_S, **fault.settings}
    async with unharmed(**settings) as linked:
        await check_fault(linked, await opened(linked.backend), fault)


async def test_ignored_frames_beyond_the_limit_per_minute_are_summarised() -> None:
    with capture_logs() as lines:
        async with unharmed() as (_, backend, _):
            session = await opened(backend)
            backend.link().write(frame(TEXT) * 1000)
            await session.result("ping")
    one_by_one = len(events(lines, "remote.frame_ignored"))
    assert one_by_one > 0
    assert one_by_one % MOST_RECORDED[Bound.REFUSED] == 0
    summaries = events(lines, REFUSED_SUMMARY)
    assert sum(it["codes"]["INVALID_REQUEST"] for it in summaries) == 1000 - one_by_one > 0
    assert {it["entry"] for it in summaries} == {"connector"}


def test_fault_ids_are_unique() -> None:
    ids = [fault.id for fault in (*FAULTS, *OWN_SETTINGS)]
    assert len(ids) == len(set(ids))


# Unusual requests that are answered


@pytest.mark.parametrize("identifier", ["x" * 256, " ", "\u2028", "\U0001f600" * 256, "../..", '"'])
async def test_any_other_text_is_a_session_name(shared: Shared, identifier: str) -> None:
    session = await opened(shared.linked.backend, identifier)
    assert (await session.result("tools/list"))["tools"]


@pytest.mark.parametrize("id_", ODD_IDS.values(), ids=ODD_IDS.keys())
async def test_an_unusual_id_of_the_newer_era_is_returned_unchanged(
    shared: Shared, id_: object
) -> None:
    session = await begun(shared.linked.backend)
    await session.send(request("tools/list", id_, _meta=ENVELOPE))
    answer = await session.receive()
    assert (answer["id"], "result" in answer) == (id_, True)


@pytest.mark.parametrize("method", ["", "x" * 100_000, "tools/list\0", "\u2028", "__class__"])
async def test_an_unknown_method_is_answered_with_an_error(shared: Shared, method: str) -> None:
    await shared.session.send(request(method, 9))
    answer = await shared.session.receive()
    assert (answer["id"], answer["error"]["code"]) == (9, -32601)


async def test_a_request_with_a_repeated_key_is_answered_and_reaches_no_server(
    shared: Shared,
) -> None:
    _, backend, server = shared.linked
    call = request("tools/call", 9, name="s1:echo", arguments={"a": 1})
    text = json.dumps({"session_identifier": KNOWN, "message": call})
    with capture_logs() as lines:
        backend.link().write(frame(TEXT, text.replace('"a": 1', '"a": 1, "a": 2')))
        answer = await shared.session.receive()
    assert (answer["id"], answer["error"]["code"]) == (9, -32600)
    assert answer["error"]["data"]["details"] == {"field": "message.params.arguments.a"}
    assert len(events(lines, "remote.frame_ignored")) == 1
    assert server.script.calls["echo"] == 0
