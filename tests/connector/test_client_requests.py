"""What servers ask meanwhile: elicitation and sampling, of the session that made the call alone."""

import asyncio
from typing import Any

import mcp_types as t
import pytest

from tests.connector.backend_link import MODES, begun, linked_to_one, until_running
from tests.support.configuration import Json
from tests.support.relay_samples import ANSWERS, FORM, SAMPLE, answer_received, requesting_tool
from tests.support.remote_backend.session import LEGACY, Session

modes = pytest.mark.parametrize("mode", MODES)
server_eras = pytest.mark.parametrize("server_era", ["modern", "legacy"])
both_questions = pytest.mark.parametrize("question", [FORM, SAMPLE], ids=["elicit", "sample"])


class Asked:
    """The callbacks of one client, and what it was asked."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    async def elicit(self, _context: object, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.messages.append(params.message)
        return t.ElicitResult(action="accept", content={"name": "Ö"})

    async def sample(
        self, _context: object, params: t.CreateMessageRequestParams
    ) -> t.CreateMessageResult:
        self.messages.append(f"at most {params.max_tokens}")
        text = t.TextContent(text="Ho")
        return t.CreateMessageResult(role="assistant", content=text, model="m")

    @property
    def options(self) -> dict[str, Any]:
        """What the SDK's client is made with."""
        return {"elicitation_callback": self.elicit, "sampling_callback": self.sample}


async def answered(session: Session, tool: str, arguments: Json, answer: Json) -> Json:
    """Call in a session that is asked meanwhile, answer, and give the call's result."""
    async with asyncio.TaskGroup() as tasks:
        calling = tasks.create_task(session.call(f"s1:{tool}", arguments))
        asked = await session.receive()
        await session.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    return calling.result()


@modes
@server_eras
@both_questions
async def test_a_client_answers_what_its_call_s_server_asks(
    mode: str, server_era: str, question: Json
) -> None:
    tool, arguments = requesting_tool(server_era, question)
    mine, others = Asked(), Asked()
    async with (
        linked_to_one(tool, raw={"era": server_era, "sse": True}) as (_, backend, _),
        backend.client(mode, **others.options),
        backend.client(mode, **mine.options) as client,
    ):
        result = await client.call_tool(f"s1:{tool}", arguments)
    told = {"structuredContent": result.structured_content}
    assert answer_received(server_era, told).items() >= ANSWERS[question["method"]].items()
    assert (len(mine.messages), others.messages) == (1, [])


@server_eras
@both_questions
async def test_a_question_goes_to_the_session_of_its_call_and_no_other_sees_it(
    server_era: str, question: Json
) -> None:
    tool, arguments = requesting_tool(server_era, question)
    raw = {"era": server_era, "sse": True}
    declared: dict[str, Any] = {"elicitation": {}, "sampling": {}}
    async with linked_to_one(tool, "echo", raw=raw) as (_, backend, _):
        asking, other = [await begun(backend, LEGACY, **declared) for _ in range(2)]
        await answered(asking, tool, arguments, ANSWERS[question["method"]])
        await other.call("s1:echo")
        questions_seen = [
            [message["method"] for message in session.messages if "method" in message]
            for session in (asking, other)
        ]
        assert questions_seen == [[question["method"]], []]
        assert not backend.strays


async def test_two_sessions_that_are_asked_at_once_answer_each_their_own_call() -> None:
    async with (
        linked_to_one("ask", raw={"era": "legacy", "sse": True}) as (_, backend, _),
        asyncio.TaskGroup() as tasks,
    ):
        sessions = [await begun(backend, LEGACY, elicitation={}) for _ in range(2)]
        calls = [tasks.create_task(session.call("s1:ask", FORM)) for session in sessions]
        asked = [await session.receive() for session in sessions]
        for number in (1, 0):
            answer = {"action": "accept", "content": {"name": f"answer {number}"}}
            message = {"jsonrpc": "2.0", "id": asked[number]["id"], "result": answer}
            await sessions[number].send(message)
        results = [(await call)["structuredContent"]["answers"] for call in calls]
    names = [answers[0]["result"]["content"]["name"] for answers in results]
    assert names == ["answer 0", "answer 1"]


async def test_the_answer_of_another_session_counts_for_nothing() -> None:
    """It has the id of the question; only the session that was asked may answer."""
    async with (
        linked_to_one("ask", raw={"era": "legacy", "sse": True}) as (_, backend, _),
        asyncio.TaskGroup() as tasks,
    ):
        asked_one, other = [await begun(backend, LEGACY, elicitation={}) for _ in range(2)]
        calling = tasks.create_task(asked_one.call("s1:ask", FORM))
        question = await asked_one.receive()
        answer = {"jsonrpc": "2.0", "id": question["id"]}
        await other.send(answer | {"result": {"action": "accept", "content": {"name": "forged"}}})
        await other.result("tools/list")
        assert not calling.done()
        await asked_one.send(answer | {"result": {"action": "decline"}})
        result = await calling
    assert result["structuredContent"]["answers"] == [{"result": {"action": "decline"}}]


@both_questions
async def test_a_session_that_declared_nothing_is_not_asked(question: Json) -> None:
    async with linked_to_one("ask", raw={"era": "legacy", "sse": True}) as (_, backend, _):
        session = await begun(backend, LEGACY)
        result = await session.call("s1:ask", question)
    assert result["structuredContent"]["answers"][0]["error"]["code"] == -32601
    assert [message for message in session.messages if "method" in message] == []


async def test_a_question_of_a_call_that_is_cancelled_is_withdrawn() -> None:
    async with (
        linked_to_one("ask", raw={"era": "legacy", "sse": True}) as (_, backend, server),
        asyncio.TaskGroup() as tasks,
    ):
        session = await begun(backend, LEGACY, elicitation={})
        calling = tasks.create_task(session.call("s1:ask", FORM))
        question = await session.receive()
        await session.notify("notifications/cancelled", {"requestId": 2})
        withdrawn = await session.receive()
        await until_running(server, 0)
        calling.cancel()
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    assert server.script.cancelled_count == 1
