"""One request of a call and its client: asking in rounds (MCP 2026-07-28), for clients that cannot.

A server of that era asks by an answer, ``input_required``, and is sent the request again with the
client's answers. A client that does the same itself gets the server's question as it came; any
other one is asked here.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from mcp_tools_proxy.domain.caller import Call, Resumed
from mcp_tools_proxy.domain.client import NOBODY, AskFailed, Client
from mcp_tools_proxy.domain.errors import ToolFailed, ToolTimeout
from mcp_tools_proxy.downstream.hearing import MAX_ASKING_S, Hearing, hearing_of
from mcp_tools_proxy.downstream.parking import HANDLE
from mcp_tools_proxy.downstream.questions import declared, refusal_of
from mcp_tools_proxy.downstream.result import MESSAGE_CHARS, asks_for_input
from mcp_tools_proxy.downstream.session import Session
from mcp_tools_proxy.policy.bounds import quote

MAX_ROUNDS = 10
"""How often one call may ask its client in rounds."""


async def request_for(
    call: Call, session: Session, method: str, params: dict[str, Any], *, repeatable: bool
) -> dict[str, Any]:
    """Send a call's request, and give the raw result; ``params`` is what it has of its own.

    It ``asks_for_input`` only where the call's client ``resumes``, or cannot be asked. Raises what
    ``Session.request`` raises; ToolFailed, ToolTimeout when the client did not answer.
    """
    client, resumed = call.client, call.resumed
    if client is NOBODY and resumed is None:
        return await session.request(method, params, repeatable=repeatable, waited_s=call.waited_s)
    legacy, terms = session.current.is_legacy, _terms(call, session, method, params)
    if resumed is not None:
        if legacy or (resumed.state or "").startswith(HANDLE):
            return await session.parking.resume(call, resumed, terms)
        params |= _resuming(resumed)
        repeatable = False

    async def send(asked: Client) -> dict[str, Any]:
        async with hearing_of(asked, (call.caller.tenant_id, call.caller.user_id)) as hearing:
            return await _request_for(
                asked,
                hearing,
                session,
                method,
                params,
                repeatable=repeatable,
                waited_s=call.waited_s,
            )

    if client.resumes and legacy and declared(client.capabilities):
        return await session.parking.run(call, terms, send)
    return await send(client)


async def _request_for(
    client: Client,
    hearing: Hearing,
    session: Session,
    method: str,
    params: dict[str, Any],
    *,
    repeatable: bool,
    waited_s: float,
) -> dict[str, Any]:
    raw = await session.request(
        method, params, repeatable=repeatable, hearing=hearing, waited_s=waited_s
    )
    rounds = 0
    while asks_for_input(raw) and not client.resumes and _may_be_asked(raw, hearing):
        rounds += 1
        if rounds > MAX_ROUNDS:
            raise ToolFailed(f"the server asked for input more than {MAX_ROUNDS} times")
        again = params | _resuming(await _answered(raw, hearing))
        raw = await session.request(method, again, hearing=hearing)
    return raw


def _terms(call: Call, session: Session, method: str, params: Mapping[str, Any]) -> object:
    """Give what has to be the same for a call to be taken up again."""
    caller = call.caller
    asked = {key: value for key, value in params.items() if key != "_meta"}
    whose = (caller.tenant_id, caller.user_id, caller.agent, session.config.server_id)
    return whose, method, asked


def _resuming(resumed: Resumed) -> dict[str, Any]:
    """Make the fields of a request that is sent again with answers."""
    fields: dict[str, Any] = {}
    if resumed.responses:
        fields["inputResponses"] = resumed.responses
    if resumed.state is not None:
        fields["requestState"] = resumed.state
    return fields


def _questions_of(raw: Mapping[str, Any]) -> dict[str, tuple[object, Mapping[str, Any]]] | None:
    """Give method and params of each question, by its key; None when one is none."""
    questions = raw.get("inputRequests") or {}
    if not isinstance(questions, Mapping):
        return None
    found: dict[str, tuple[object, Mapping[str, Any]]] = {}
    for key, question in questions.items():
        params = question.get("params") if isinstance(question, Mapping) else None
        if not isinstance(question, Mapping) or not isinstance(params, Mapping | None):
            return None
        found[key] = question.get("method"), params or {}
    return found


def declared_all(client: Client, raw: Mapping[str, Any]) -> bool:
    """Tell whether a client declared everything that a server's answer asks for."""
    questions, capabilities = _questions_of(raw), declared(client.capabilities)
    return questions is not None and all(
        refusal_of(method, params, capabilities) is None for method, params in questions.values()
    )


def _may_be_asked(raw: Mapping[str, Any], hearing: Hearing) -> bool:
    questions = _questions_of(raw)
    return questions is not None and all(
        hearing.refusal(method, params) is None for method, params in questions.values()
    )


async def _answered(raw: Mapping[str, Any], hearing: Hearing) -> Resumed:
    """Ask the client one question after the other. Raises ToolFailed, ToolTimeout."""
    answers: dict[str, object] = {}
    try:
        async with asyncio.timeout_at(hearing.ends_at):
            for key, (method, params) in (_questions_of(raw) or {}).items():
                answers[key] = await _ask(hearing, cast("str", method), params)
    except TimeoutError:
        raise ToolTimeout(f"the client did not answer within {MAX_ASKING_S:g} s") from None
    state = raw.get("requestState")
    return Resumed(responses=answers, state=state if isinstance(state, str) else None)


async def _ask(hearing: Hearing, method: str, params: Mapping[str, Any]) -> Mapping[str, object]:
    refusal = hearing.refusal(method, params)
    try:
        if refusal is not None:
            raise refusal
        return await hearing.ask(method, params)
    except AskFailed as failure:
        said = quote(failure.message, MESSAGE_CHARS)
        raise ToolFailed(
            f"the server asked the client for input, and got error {failure.code}: {said}",
            details={"code": failure.code},
        ) from None
