"""The same runs over HTTP: a real gateway, and a real MCP server with a suite's tools.

Shows that the checks in this process decide like the gateway.
"""

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import mcp_types as t
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount

from benchmarks.agentdojo.checked_runs import CheckedRun, CheckedSuite, StoppedCall
from benchmarks.agentdojo.measurement import FIRST, LAST, play
from benchmarks.agentdojo.suites import Situation, Suite
from benchmarks.configuration import over_http, write_configuration
from benchmarks.messages import EXECUTE
from benchmarks.servers import free_ports, gateway

_USER = {"user_id": "user", "tenant_id": "bench"}
_REFUSED = ("POLICY_DENIED", "RUN_REQUIRED", "POLICY_UNAVAILABLE", "LOOP_STOPPED")


class SuiteServer:
    """A suite's tools over MCP; calls change the environment of ``situation``."""

    def __init__(self, suite: Suite) -> None:
        self.situation: Situation | None = None
        self._suite = suite

    async def list_tools(self, *_: object) -> t.ListToolsResult:
        """List the tools with AgentDojo's descriptions and schemas."""
        return t.ListToolsResult(
            tools=[
                t.Tool(name=name, description=description, input_schema=schema)
                for name, (description, schema) in self._suite.tools.items()
            ]
        )

    async def call_tool(self, _: object, params: t.CallToolRequestParams) -> t.CallToolResult:
        """Make a call."""
        assert self.situation is not None
        result, error = self.situation.make(params.name, params.arguments or {})
        text = json.dumps(result) if error is None else error
        content: list[t.ContentBlock] = [t.TextContent(type="text", text=text)]
        if error is not None:
            return t.CallToolResult(content=content, is_error=True)
        return t.CallToolResult(content=content, structured_content=result)

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[None]:
        """Serve on a port of this machine."""
        server: Server[Any] = Server(
            self._suite.name, on_list_tools=self.list_tools, on_call_tool=self.call_tool
        )
        manager = StreamableHTTPSessionManager(server, json_response=True)
        app = Starlette(routes=[Mount("/mcp", manager.handle_request)])
        web = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", lifespan="off")
        )
        async with manager.run(), asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(web.serve())
            yield
            web.should_exit = True
            await serving


class HttpRun:
    """One run over the gateway's HTTP API, with the interface of CheckedRun."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        server: SuiteServer,
        suite: str,
        task: str,
        tools: Iterable[str],
    ) -> None:
        self.stopped: list[StoppedCall] = []
        self._http = http
        self._server = server
        self._suite = suite
        self._run = {
            "id": uuid4().hex,
            "task": task,
            "tools": [f"{suite}:{it}" for it in tools],
        }

    async def call(
        self,
        situation: Situation,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        is_approved: bool = False,
    ) -> object | None:
        """Make a call, and return its result; None if it was stopped or failed."""
        self._server.situation = situation
        body = {
            "tool_name": f"{self._suite}:{tool}",
            "arguments": arguments,
            "user": _USER,
            "run": self._run,
        }
        envelope = (await self._http.post(EXECUTE, json=body)).json()
        if envelope["status"] == "ok":
            result: object = envelope["result"]["structured_content"]
            return result
        error = envelope["error"]
        if error["code"] in _REFUSED:
            ids = (error.get("details") or {}).get("policy_ids", [error["code"]])
            self.stopped.append(StoppedCall(tool, arguments, ids))
        elif error["code"] != "TOOL_FAILED":
            raise ValueError(f"{tool}: {error}")
        return None


async def compare(suite: Suite, labels: Path, policies: Path) -> int:
    """Play all pairs in both ways, print the differences, and return their number.

    Policies are enforced instead of asking a second person.
    """
    with tempfile.TemporaryDirectory() as name:
        (server_port,) = free_ports(1)
        settings = _configuration(Path(name, "config"), suite, labels, policies, server_port)
        checked = CheckedSuite(suite, labels, Path(name, "config", "policies", policies.name))
        server = SuiteServer(suite)
        async with server.serving(server_port):
            with gateway(Path(name), Path(name), settings) as process:
                await asyncio.to_thread(process.wait_for, "", "/health", method="GET")
                url = f"http://127.0.0.1:{process.port}"
                async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                    return await _differences(checked, http, server)


def _configuration(
    folder: Path, suite: Suite, labels: Path, policies: Path, port: int
) -> Mapping[str, str]:
    """Write the gateway's configuration, and return its settings."""
    settings = write_configuration(
        folder,
        {suite.name: over_http(port, "/mcp/")},
        {"all": [(suite.name, it) for it in suite.tools]},
    )
    (folder / "labels.json").write_bytes((labels / "labels.json").read_bytes())
    (folder / "policies").mkdir()
    enforced = policies.read_text(encoding="utf-8").replace('@mode("approve")', "")
    (folder / "policies" / policies.name).write_text(enforced, encoding="utf-8")
    return {**settings, "MCP_PROXY_RUNS_PER_USER": "1000000"}


async def _differences(checked: CheckedSuite, http: httpx.AsyncClient, server: SuiteServer) -> int:
    suite, differences = checked.suite, 0
    counts: Counter[str] = Counter()
    for task, goal, when in product(suite.user_tasks, suite.goals, (FIRST, LAST)):
        outcomes = []
        for is_http in (False, True):
            situation = suite.situation(task, goal)
            tools = list(dict.fromkeys(it for it, _ in situation.own_calls))
            words = situation.task.PROMPT
            run = (
                HttpRun(http, server, suite.name, words, tools)
                if is_http
                else checked.run(words, tools)
            )
            outcomes.append(await _outcome(run, situation, when))
        counts += Counter(made=outcomes[0].made, refused=len(outcomes[0].stopped))
        if outcomes[0] != outcomes[1]:
            differences += 1
            print(f"{task} {goal} {when}: {outcomes[0]} in process, {outcomes[1]} over HTTP")
    print(
        f"{suite.name}: {counts['made']} calls made, {counts['refused']} refused; "
        f"{differences} runs with differences"
    )
    return differences


class _Outcome(NamedTuple):
    stopped: list[StoppedCall]
    made: int
    is_reached: bool


async def _outcome(run: CheckedRun | HttpRun, situation: Situation, when: str) -> _Outcome:
    async def make(tool: str, arguments: Mapping[str, Any], _: bool) -> object | None:
        return await run.call(situation, tool, arguments, is_approved=False)

    await play(situation, when, make)
    stopped = [StoppedCall(it.tool, it.arguments, sorted(it.policy_ids)) for it in run.stopped]
    return _Outcome(stopped, len(situation.made), situation.is_reached())
