import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from tests.interop.conformance_suite import node22
from tests.interop.roll_out.balancer import Passed, balancing
from tests.interop.roll_out.client_program import ClientProgram, running_clients
from tests.interop.roll_out.inspector_clients import inspector
from tests.interop.roll_out.replicas import Replicas
from tests.mcp_server.clients.client_programs import MCP1_PYTHON
from tests.support.service import eventually

HERE = Path(__file__).parent / "roll_out"
TOOLS = ["echo", "sleep"]
MODERN = "auto"
"""Clients of the newer era, which hold no open stream here."""

CLIENTS: Mapping[str, tuple[Sequence[str | Path], int]] = {
    "mcp1": ([MCP1_PYTHON, HERE / "python_clients.py"], 15),
    "legacy": ([sys.executable, HERE / "python_clients.py"], 10),
    MODERN: ([sys.executable, HERE / "python_clients.py"], 5),
    "typescript": ([node22(), HERE / "typescript_clients.mjs"], 15),
}
"""By kind, the program of clients and their number."""

PROGRAMMED = sum(number for _, number in CLIENTS.values())
INSPECTORS = 5
STOPPED = (0, -15, 143)


async def test_no_client_loses_a_call_or_its_session(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        balancer = await stack.enter_async_context(balancing())
        replicas = Replicas(tmp_path, balancer, stack)
        replicas.show(*TOOLS)
        first = [await replicas.start(), await replicas.start()]
        programs = {
            kind: await stack.enter_async_context(
                running_clients(command, f"{balancer.url}/mcp", number, kind)
            )
            for kind, (command, number) in CLIENTS.items()
        }
        inspectors = await stack.enter_async_context(inspector(f"{balancer.url}/mcp", INSPECTORS))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        calling = tasks.create_task(inspectors.call_until_stopped())

        shown = TOOLS
        await eventually(partial(all_know, programs, shown))
        for program, tool in zip(first, ["counter", "meta"], strict=True):
            await replicas.start()
            assert await replicas.stop(program) in STOPPED
            shown = [*shown, tool]
            replicas.show(*shown)  # while ended streams are not open again
            await eventually(partial(all_know, programs, shown))

        inspectors.stop()
        await calling
        codes = [await program.stop() for program in programs.values()]

    ends = [end for program in programs.values() for end in program.ends]
    assert codes == [0] * len(programs)
    assert [end for end in ends if end["wrong"]] == []
    assert inspectors.wrong == []
    assert (len(ends), min(end["calls"] for end in ends) > 3) == (PROGRAMMED, True)
    assert inspectors.calls >= INSPECTORS
    assert [passed for passed in balancer.passed if passed.status >= 400] == []
    older_era = PROGRAMMED - CLIENTS[MODERN][1] + INSPECTORS
    assert balancer.passed[Passed("initialize", 200)] == older_era


async def all_know(programs: Mapping[str, ClientProgram], tools: Sequence[str]) -> bool:
    """Return whether each notified client has the list with these tools."""
    known = [
        given
        for kind, program in programs.items()
        if kind != MODERN
        for given in program.tools.values()
    ]
    return known == [set(tools)] * (PROGRAMMED - CLIENTS[MODERN][1])
