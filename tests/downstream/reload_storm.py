"""Many concurrent callers during configuration changes, and checks of their answers."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from tests.support.service import Envelope, Service, eventually

CALLERS = 32


class Storm:
    """Callers of ``tools``; each answer names the server and tool and repeats the arguments.

    ``may`` lists the allowed tools. During a change both the old and the new ones are allowed. A
    call is checked against everything allowed between its start and its end.
    """

    def __init__(self, service: Service, tools: Sequence[str]) -> None:
        self.codes: dict[str, Counter[str]] = {tool: Counter() for tool in tools}
        """Number of answers for each tool and code."""
        self.faults: list[str] = []
        """Wrong answers, and answers of tools that were not allowed."""
        self.calls = 0
        self._service = service
        self._tools = tools
        self._allowed: list[frozenset[str]] = [frozenset()]
        self._is_over = False

    def may(self, *tools: Iterable[str]) -> None:
        """Allow the tools of all of these."""
        self._allowed.append(frozenset().union(*tools))

    async def passes(self, calls: int) -> None:
        """Wait until this many further calls were answered."""
        target = self.calls + calls

        async def reached() -> bool:
            return self.calls >= target

        await eventually(reached)

    def codes_of_all(self) -> set[str]:
        return {code for codes in self.codes.values() for code in codes}

    @asynccontextmanager
    async def calling_continuously(self) -> AsyncIterator[None]:
        """Call continuously."""
        async with asyncio.TaskGroup() as callers:
            for caller in range(CALLERS):
                callers.create_task(self._keep_calling(caller))
            try:
                yield
            finally:
                self._is_over = True

    async def _keep_calling(self, caller: int) -> None:
        number = caller
        while not self._is_over:
            number += 1
            tool, since = self._tools[number % len(self._tools)], len(self._allowed) - 1
            arguments = {"caller": caller, "number": number}
            envelope = await self._service.execute(tool, arguments)
            self._judge(tool, arguments, envelope, self._allowed[since:])
            self.calls += 1
            await asyncio.sleep(0)  # a refusal does not yield to the event loop

    def _judge(
        self,
        tool: str,
        arguments: dict[str, int],
        envelope: Envelope,
        allowed: Sequence[frozenset[str]],
    ) -> None:
        if envelope["status"] != "ok":
            self.codes[tool][envelope["error"]["code"]] += 1
            return
        self.codes[tool]["OK"] += 1
        server, name = tool.split(":", 1)
        right = {"server": server, "tool": name, "arguments": arguments}
        if (answer := envelope["result"]["structured_content"]) != right:
            self.faults.append(f"{tool} gave {answer}")
        if not any(tool in tools for tools in allowed):
            self.faults.append(f"{tool} was not allowed")
