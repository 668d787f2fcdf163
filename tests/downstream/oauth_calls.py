"""Calls of a server that answers with the headers it got, and so with its token."""

from tests.downstream.caller_gateway import user
from tests.support.configuration import Json
from tests.support.service import Service
from tests.support.tokens import bearer

ANN = user("acme")
TOOL = "s:headers"


async def call(service: Service, caller: Json = ANN, token: str | None = None) -> Json:
    body = {"tool_name": TOOL, "arguments": {}, **({} if token else caller)}
    headers = {} if token is None else bearer(token)
    response = await service.http.post("/internal/mcp/execute", json=body, headers=headers)
    answer: Json = response.json()
    return answer


def code(answer: Json) -> str:
    return "OK" if answer["status"] == "ok" else str(answer["error"]["code"])


def sent_token(answer: Json) -> str:
    assert answer["status"] == "ok", answer
    headers: Json = answer["result"]["structured_content"]
    return str(headers["authorization"]).removeprefix("Bearer ")
