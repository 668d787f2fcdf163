"""One fake for each protocol of ours."""

from collections.abc import Awaitable, Callable

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.component import JsonObject, Result
from mcp_tools_proxy.domain.tool import ToolSpec


class FakeTool:
    """A Tool that answers with ``answer``, or does what ``run`` does."""

    def __init__(
        self,
        *,
        name: str = "fake",
        alias: str | None = None,
        properties: tuple[str, ...] = (),
        answer: JsonObject | None = None,
        tokens: int = 0,
        run: Callable[[Call], Awaitable[Result]] | None = None,
    ) -> None:
        self.spec = ToolSpec(
            name=name,
            alias=alias or name,
            description="A fake.",
            input_schema={"type": "object", "properties": {name: {} for name in properties}},
        )
        self._result = Result(value=answer or {}, tokens=tokens)
        self._run = run

    def parse(self, arguments: JsonObject) -> object:
        """Take any arguments."""
        return arguments

    async def run(self, parsed: object, call: Call) -> Result:
        """Answer."""
        return self._result if self._run is None else await self._run(call)
