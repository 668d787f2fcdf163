"""One call of a tool or prompt, and its requests to the caller."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Context = ServerRequestContext[Any]
R = TypeVar("R")
ANSWERS: dict[str, type[t.Result]] = {
    "elicitation/create": t.ElicitResult,
    "sampling/createMessage": t.CreateMessageResult,
    "roots/list": t.ListRootsResult,
}


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of a call; ``answers`` are those to the previous round's requests, by key."""

    context: Context
    arguments: Mapping[str, Any] = field(default_factory=dict)
    answers: Mapping[str, t.InputResponse] = field(default_factory=dict)
    state: str | None = None

    @property
    def is_modern(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    def content(self, key: str) -> dict[str, Any] | None:
        answer = self.answers.get(key)
        if not isinstance(answer, t.ElicitResult) or answer.action != "accept":
            return None
        return dict(answer.content or {})

    def declares(self, method: str) -> bool:
        declared = self.context.session.client_capabilities
        return declared is not None and getattr(declared, capability_of(method)) is not None


Behaviour = Callable[[Round], Awaitable[R | t.InputRequiredResult]]
"""Answers with a result or with requests."""


def capability_of(method: str) -> str:
    return method.split("/")[0]


def require(questions: t.InputRequests, state: str | None = None) -> t.InputRequiredResult:
    return t.InputRequiredResult(input_requests=questions, request_state=state)


async def conduct(behaviour: Behaviour[R], first: Round) -> R | t.InputRequiredResult:
    """Run a call: in the modern era one round of it, over the legacy one all of them.

    Raises MCPError if its caller accepts no requests.
    """
    result = await behaviour(first)
    if first.is_modern:
        if isinstance(result, t.InputRequiredResult):
            _refuse_undeclared(first, result)
        return result
    while isinstance(result, t.InputRequiredResult):
        _refuse_undeclared(first, result)
        answers = {
            key: await _request_now(first.context, request)
            for key, request in (result.input_requests or {}).items()
        }
        result = await behaviour(replace(first, answers=answers, state=result.request_state))
    return result


def _refuse_undeclared(call: Round, result: t.InputRequiredResult) -> None:
    for request in (result.input_requests or {}).values():
        if not call.declares(request.method):
            refuse(request.method)


def refuse(method: str) -> None:
    needed = capability_of(method)
    raise MCPError(
        t.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"This needs a client that offers {needed}.",
        {"requiredCapabilities": {needed: {}}},
    )


async def _request_now(context: Context, request: t.InputRequest) -> t.InputResponse:
    related = ServerMessageMetadata(related_request_id=context.request_id)
    answer = await context.session.send_request(request, ANSWERS[request.method], metadata=related)
    return cast("t.InputResponse", answer)
