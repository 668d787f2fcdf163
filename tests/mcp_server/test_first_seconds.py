import asyncio

import pytest

from tests.support.configuration import Config, Json, make_preset
from tests.support.mcp_endpoint import LEGACY, serving
from tests.support.mcp_servers.blocked_server import running_blocked
from tests.support.raw_mcp_client import ERAS, raw_client
from tests.support.service import eventually

REQUESTS: list[tuple[str, Json]] = [
    ("tools/call", {"name": "s1:echo", "arguments": {"text": "hi"}}),
    ("prompts/get", {"name": "plain"}),
    ("resources/read", {"uri": "raw://text"}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "A"},
        },
    ),
]
SUBSCRIBE: tuple[str, Json] = ("resources/subscribe", {"uri": "raw://text"})


@pytest.mark.parametrize("era", ERAS)
async def test_each_method_waits(era: str) -> None:
    requests = [*REQUESTS, SUBSCRIBE] if era == LEGACY else REQUESTS
    async with running_blocked() as server:
        config = Config(servers={"s1": server.entry}, presets=[make_preset(tools=[("s1", "echo")])])
        async with serving(config=config, discovered=False) as served:
            client = await raw_client(served, era)

            async def all_wait() -> bool:
                session = served.service.gateway.pool.session("s1")
                return session is not None and session.sender.in_flight == len(requests)

            async with asyncio.TaskGroup() as tasks:
                answers = [tasks.create_task(client.request(*one)) for one in requests]
                await eventually(all_wait)
                server.release()
    assert [answer.result().get("error") for answer in answers] == [None] * len(requests)
    assert not answers[0].result()["result"].get("isError")
