"""Many callers at once while the configuration changes, and the judgement of what they got."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from tests.support.service import Envelope, Service, eventually

CALLERS = 32


class Storm:
    """Callers of ``tools``, each of which answers which server and tool it is, and its arguments.

    ``may`` says what is allowed from now on. While a change is under way both the old and the new
    are. A call is judged by all that was allowed between its start and its end.
    """

    def __init__(self, service: Service, tools: Sequence[str]) -> None:
        self.codes: dict[str, Counter[str]] = {tool: Counter() for tool in tools}
        """How often each tool gave each code."""
        self.faults: list[str] = []
        """Wrong answers, and answers of what was not allowed."""
        self.calls = 0
        self._service = service
        self._tools = tools
        self._allowed: list[frozenset[str]] = [frozenset()]
        self._is_over = False

    def may(self, *tools: Iterable[str]) -> None:
        """Allow the tools of all of these."""
        self._allowed.append(frozenset().union(*tools))

    async def passes(self, calls: int) -> None:
        """Wait until so many more calls were answered."""
        target = self.calls + calls

        async def reached() -> bool:
            return self.calls >= target

        await eventually(reached)

    def codes_of_all(self) -> set[str]:
        return {code for codes in self.codes.values() for code in codes}

    @asynccontextmanager
    async def blowing(self) -> AsyncIterator[None]:
        """Call all the while."""
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
            await asyncio.sleep(0)  # a refusal takes no turn of the loop

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
