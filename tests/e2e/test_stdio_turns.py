"""The most expensive messages over stdio do not block the program's event loop."""

import json
from pathlib import Path

import pytest

from tests.api.hostile_requests import MEBIBYTE, MESSAGES, Hostile, checking, config_of, message_of
from tests.e2e.stdio_program import MODERN, stdio_program
from tests.support.fork_server import MEASURED_PROGRAM
from tests.support.loop_turns import MOST_S
from tests.support.measured_program import long_turns

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("hostile", MESSAGES.values(), ids=MESSAGES.keys())
async def test_the_event_loop_is_never_blocked_for_long(tmp_path: Path, hostile: Hostile) -> None:
    line = message_of(hostile.tool, hostile.arguments, json.dumps(MODERN).encode()) + b"\n"
    assert len(line) < MEBIBYTE
    async with checking(hostile.schema) as server:
        config_of(server).write(tmp_path / "config")
        with stdio_program(tmp_path, module=MEASURED_PROGRAM) as program:
            program.request(2, "tools/list")
            assert "raw:checked" in json.dumps(program.answer(2))
            of_the_start = len(long_turns(tmp_path))
            program.send(line)
            if hostile.is_answered:
                assert program.answer(1)
            program.request(3, "tools/list")
            assert program.answer(3)
            assert program.close_stdin() == 0
    assert max(long_turns(tmp_path)[of_the_start:], default=0.0) < MOST_S
