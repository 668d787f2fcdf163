import asyncio
from collections.abc import Mapping

import pytest

from mcp_tools_proxy.telemetry.logging import LevelName, LogLevel
from tests.support.captured_logs import capture_logs
from tests.support.virtual_time import BACKEND


@pytest.fixture
def anyio_backend() -> tuple[str, Mapping[str, object]]:
    return BACKEND


@pytest.fixture
def applied() -> list[LevelName]:
    """The applied levels, in order."""
    return []


@pytest.fixture
def log_level(applied: list[LevelName]) -> LogLevel:
    return LogLevel("info", apply=applied.append)


async def test_the_level_reverts_after_its_duration(
    log_level: LogLevel, applied: list[LevelName]
) -> None:
    log_level.change("debug", for_s=60)
    await asyncio.sleep(59)
    assert log_level.current == "debug"
    assert log_level.remaining_s == pytest.approx(1)
    await asyncio.sleep(2)
    assert (log_level.current, log_level.remaining_s) == ("info", None)
    assert applied == ["debug", "info"]


async def test_without_a_duration_the_level_stays(log_level: LogLevel) -> None:
    log_level.change("error", for_s=None)
    await asyncio.sleep(1_000_000)
    assert (log_level.current, log_level.remaining_s) == ("error", None)


@pytest.mark.parametrize("for_s", [None, 600])
async def test_a_later_change_replaces_an_earlier_one(
    log_level: LogLevel, for_s: float | None
) -> None:
    log_level.change("debug", for_s=60)
    log_level.change("warning", for_s=for_s)
    await asyncio.sleep(120)
    assert log_level.current == "warning"


async def test_setting_the_default_level_ends_a_change(
    log_level: LogLevel, applied: list[LevelName]
) -> None:
    log_level.change("debug", for_s=60)
    log_level.change("info", for_s=10)
    await asyncio.sleep(120)
    assert (log_level.current, applied) == ("info", ["debug", "info"])


async def test_each_change_is_logged(log_level: LogLevel) -> None:
    with capture_logs() as lines:
        log_level.change("debug", for_s=5)
        await asyncio.sleep(10)
    shown = [[line[key] for key in ("event", "before", "level")] for line in lines]
    assert shown == [
        ["log_level.changed", "info", "debug"],
        ["log_level.restored", "debug", "info"],
    ]
    assert lines[0]["for_s"] == 5
