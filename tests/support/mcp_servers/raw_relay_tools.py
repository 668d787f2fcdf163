"""The raw server's tools that send notifications and requests to clients. Standard library only."""

import asyncio
import json
from collections import Counter

from tests.support.mcp_servers.raw_tools import (
    Behaviour,
    Fault,
    Json,
    RpcError,
    Run,
    Send,
    text_result,
)


async def notify(run: Run) -> Json:
    """Send ``messages`` unchanged except for ``$token``, before the result."""
    _send_all(run)
    return text_result("said")


async def notify_late(run: Run) -> Json:
    """Send ``messages`` after the result."""
    asyncio.get_running_loop().call_later(0.02, _send_all, run)
    return text_result("not said yet")


def _send_all(run: Run) -> None:
    for message in run.arguments.get("messages", []):
        text = json.dumps(message).replace('"$token"', json.dumps(run.meta.get("progressToken")))
        for _ in range(int(run.arguments.get("times", 1))):
            run.send({"jsonrpc": "2.0", **json.loads(text)})


async def request_client(run: Run) -> Json | Fault:
    """Send ``times`` requests in parallel and return the answers; ``beside``: on another stream.

    With ``withdraw`` the request is cancelled without waiting for an answer; with ``crash`` the
    server dies while it is pending, with ``leave`` the call ends.
    """
    times = int(run.arguments.get("times", 1))
    size = int(run.arguments.get("bytes", 0))
    question: Json = {k: run.arguments[k] for k in ("method", "params") if k in run.arguments}
    if size:
        question = question | {"params": {"message": "x" * size}}
    send = run.send
    if run.arguments.get("beside"):
        send = next(iter(run.script.listeners.values()))[0]
    ids = [run.script.request_client(question, send) for _ in range(times)]
    if run.arguments.get("crash") or run.arguments.get("leave"):
        await asyncio.sleep(0.1)
        return Fault.CRASH if run.arguments.get("crash") else text_result("left")
    if run.arguments.get("withdraw"):
        await asyncio.sleep(0.1)
        params = {"requestId": ids[0]}
        send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        await asyncio.sleep(0.1)
        return text_result("withdrawn", {"answered": run.script.requested[ids[0]].done()})
    answers = [await run.script.requested[id_] for id_ in ids]
    return text_result("the answers", {"answers": answers})


async def request_client_later(run: Run) -> Json:
    question: Json = {k: run.arguments[k] for k in ("method", "params")}
    loop = asyncio.get_running_loop()
    loop.call_later(
        0.02, lambda: run.script.later.put_nowait(run.script.request_client(question, run.send))
    )
    return text_result("asks later")


async def answers_later(run: Run) -> Json:
    answer = await run.script.requested[await run.script.later.get()]
    return text_result("the answers", {"answers": [answer]})


async def input_(run: Run) -> Json:
    """Require input ``rounds`` times in the modern way, then return the answers."""
    state = run.params.get("requestState")
    seen = json.loads(state) if state else []
    responses = run.params.get("inputResponses")
    seen = [*seen, responses] if responses is not None else seen
    if len(seen) < int(run.arguments.get("rounds", 1)):
        questions = run.arguments["questions"]
        return {
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": json.dumps(seen),
            "x-more": {"kept": True},
        }
    return text_result("complete", {"seen": seen, "arguments": run.arguments, "meta": run.meta})


def completed(params: Json) -> Json:
    """Complete with the request itself as JSON; ``many`` has 150 values, ``odd`` an invalid one."""
    if params["argument"]["value"] == "odd":
        return {"completion": {"values": [1]}}
    if params["argument"]["value"] == "many":
        return {"completion": {"values": [str(number) for number in range(150)], "total": 150}}
    received = {key: params[key] for key in ("ref", "argument", "context") if key in params}
    return {"completion": {"values": [json.dumps(received)], "total": 1, "hasMore": False}}


async def touch(run: Run) -> Json:
    run.script.updates.notify(str(run.arguments["uri"]), run.script.listeners)
    return text_result("touched")


class Updates:
    def __init__(self) -> None:
        self.subscribed: Counter[str] = Counter()
        """Those of the legacy era."""
        self.streams: dict[object, tuple[Send, Json, list[str]]] = {}
        """Those of the modern era, with the marks of their messages."""

    def subscribe(self, params: Json) -> Json:
        if params["uri"] == "raw://refused":
            raise RpcError(-32002, "Resource not found")
        self.subscribed[params["uri"]] += 1
        return {}

    def unsubscribe(self, params: Json) -> Json:
        self.subscribed[params["uri"]] -= 1
        return {}

    def watches(self, uri: str) -> int:
        return self.subscribed[uri] + sum(uri in uris for _, _, uris in self.streams.values())

    def notify(self, uri: str, listeners: dict[object, tuple[Send, Json]]) -> None:
        sends = [(send, meta) for send, meta, uris in self.streams.values() if uri in uris]
        if self.subscribed[uri] > 0:
            sends += [(send, meta) for send, meta in listeners.values() if not meta]
        for send, meta in sends:
            params = {"uri": uri} | ({"_meta": meta} if meta else {})
            method = "notifications/resources/updated"
            send({"jsonrpc": "2.0", "method": method, "params": params})


RELAY_BEHAVIOURS: dict[str, Behaviour] = {
    "notify": notify,
    "notify_late": notify_late,
    "request_client": request_client,
    "request_client_later": request_client_later,
    "answers_later": answers_later,
    "input": input_,
    "touch": touch,
}
