import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.mcp_servers.raw_script import Script

Json = dict[str, Any]


class Fault(Enum):
    """A transport's fault in place of an answer."""

    CRASH = "crash"
    """Die: the process ends, or its connection is aborted."""
    GARBAGE = "garbage"
    """Write invalid JSON."""
    HALF = "half"
    """Write half an answer, then close."""


GARBAGE = "Traceback: this is no JSON {"
HALF = '{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "te'

Send = Callable[[Json | Fault], None]
"""Takes one message for the client, or a fault to commit."""


class RpcError(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


@dataclass(kw_only=True)
class Run:
    """One call of a tool; ``headers`` are those of its HTTP request, lower case."""

    script: "Script"
    tool: str
    arguments: Json
    params: Json
    """All params of the request."""
    meta: Json
    headers: Json
    send: Send


Behaviour = Callable[[Run], Awaitable[Any]]
"""Returns a result or a Fault."""


def text_result(text: str, structured: object = None, **more: object) -> Json:
    result: Json = {"content": [{"type": "text", "text": text}], **more}
    return result if structured is None else result | {"structuredContent": structured}


async def identify(run: Run) -> Json:
    who = {"server": run.script.options.name, "tool": run.tool, "arguments": run.arguments}
    return text_result(json.dumps(who), who)


async def echo(run: Run) -> Json:
    return text_result(json.dumps(run.arguments), run.arguments)


async def meta(run: Run) -> Json:
    return text_result("the _meta", run.meta)


async def headers(run: Run) -> Json:
    return text_result("the headers", run.headers)


async def witness(run: Run) -> Json:
    """Return everything that identifies the caller, session and process."""
    seen: Json = {"headers": run.headers, "meta": run.meta, "process": os.getpid()}
    seen["folder"] = os.path.basename(os.getcwd())
    seen["environment"] = {k: v for k, v in os.environ.items() if k.startswith("CALLER_")}  # noqa: TID251 - part of the answer
    return text_result("seen", {**seen, "arguments": sys.argv[1:]})


async def env(run: Run) -> Json:
    return text_result("the environment", {"names": sorted(os.environ)})  # noqa: TID251 - part of the answer


async def sleep(run: Run) -> Json:
    await asyncio.sleep(float(run.arguments.get("seconds", 1)))
    return text_result("slept", run.arguments)


async def hold(run: Run) -> Json:
    await run.script.released.wait()
    return text_result("released")


async def hang(run: Run) -> Json:
    await asyncio.Event().wait()
    raise AssertionError("never comes")


async def cancelled_count(run: Run) -> Json:
    counts = {"count": run.script.cancelled_count, "running": run.script.running_count - 1}
    return text_result(str(run.script.cancelled_count), counts)


async def count(run: Run) -> Json:
    return text_result(str(run.script.calls[run.tool]), {"count": run.script.calls[run.tool]})


async def count_then_crash(run: Run) -> Json | Fault:
    """Count, and die at the first call; to check "not executed twice" read ``calls`` in process."""
    return Fault.CRASH if run.script.calls[run.tool] == 1 else await count(run)


async def write(run: Run) -> Json:
    """Write an entry after ``seconds``; for "not executed twice" read ``written`` in process."""
    run.script.written[run.arguments["entry"]] += 1
    await asyncio.sleep(float(run.arguments.get("seconds", 0)))
    return text_result(run.arguments["entry"])


async def big(run: Run) -> Json:
    return text_result("x" * int(run.arguments.get("bytes", 1000)))


async def big_image(run: Run) -> Json:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * int(run.arguments["bytes"])}
    return {"content": [image]}


async def many_keys(run: Run) -> Json:
    return text_result("keys", {f"k{number}": number for number in range(run.arguments["count"])})


async def flood(run: Run) -> Json:
    for _ in range(int(run.arguments.get("count", 1000))):
        run.script.notify_list_changed()
    return text_result("flooded")


async def progress(run: Run) -> Json:
    for step in (1, 2):
        params = {"progressToken": run.meta.get("progressToken"), "progress": step, "total": 2}
        run.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    return text_result("done")


async def error(run: Run) -> Json:
    raise RpcError(
        int(run.arguments.get("code", -32050)), str(run.arguments.get("message", "It broke."))
    )


async def is_error(run: Run) -> Json:
    return text_result("it went wrong", {"why": "asked to"}, isError=True)


async def no_type(run: Run) -> Json:
    image = {"data": "aGk=", "mimeType": "image/png"}
    return {"content": [{"text": "hello world"}, image]}


async def undecodable(run: Run) -> Json:
    """Return an invalid result of tools/call: by default one without ``content``."""
    result = run.arguments.get("result", {"answer": 42})
    return result if isinstance(result, dict) else {"content": result}


async def bare(run: Run) -> Any:
    return run.arguments["result"]


async def tools_swap(run: Run) -> Json:
    run.script.swap("swapped")
    return text_result(", ".join(run.script.tools))


async def crash(run: Run) -> Fault:
    return Fault.CRASH


async def garbage(run: Run) -> Fault:
    return Fault.GARBAGE


async def half(run: Run) -> Fault:
    return Fault.HALF


NUMBER = {"type": "number"}
READ_ONLY = {"readOnlyHint": True}

BEHAVIOURS: dict[str, Behaviour] = {
    "whoami": identify,
    "echo": echo,
    "meta": meta,
    "headers": headers,
    "env": env,
    "sleep": sleep,
    "hold": hold,
    "hang": hang,
    "hang_safe": hang,
    "cancelled_count": cancelled_count,
    "counter": count,
    "counter_safe": count,
    "witness": witness,
    "counter_crash": count_then_crash,
    "counter_crash_safe": count_then_crash,
    "write": write,
    "big": big,
    "big_image": big_image,
    "many_keys": many_keys,
    "flood": flood,
    "progress": progress,
    "error": error,
    "is_error": is_error,
    "no_type": no_type,
    "undecodable": undecodable,
    "bare": bare,
    "bare_typed": bare,
    "tools_swap": tools_swap,
    "crash": crash,
    "crash_safe": crash,
    "garbage": garbage,
    "half": half,
}
PROPERTIES: dict[str, Json] = {
    "echo": {"text": {"type": "string"}},
    "sleep": {"seconds": NUMBER},
    "write": {"entry": {"type": "string"}, "seconds": NUMBER},
    "big": {"bytes": NUMBER},
    "big_image": {"bytes": NUMBER},
    "many_keys": {"count": NUMBER},
    "flood": {"count": NUMBER},
    "error": {"code": NUMBER, "message": {"type": "string"}},
    "undecodable": {"result": {}},
    "bare": {"result": {}},
    "bare_typed": {"result": {}},
}
OWN_ITEMS: dict[str, list[Json]] = {
    "prompts": [
        {"name": "greet", "arguments": [{"name": "name", "required": True}]},
        {"name": "plain"},
    ],
    "resources": [{"uri": "raw://text", "name": "text", "mimeType": "text/plain"}],
    "resourceTemplates": [{"uriTemplate": "raw://item/{id}", "name": "item"}],
}
"""The other listed items."""

REQUIRED = {"sleep": ["seconds"], "write": ["entry"], "big_image": ["bytes"]}


def descriptor(name: str) -> Json:
    """Describe a tool as in tools/list.

    Those named ``…_safe`` may be repeated, those named ``…_typed`` have an output schema of an
    object.
    """
    schema: Json = {"type": "object", "properties": PROPERTIES.get(name, {})}
    if name in REQUIRED:
        schema["required"] = REQUIRED[name]
    tool: Json = {"name": name, "description": f"Does {name}.", "inputSchema": schema}
    if name.endswith("_typed"):
        tool["outputSchema"] = {"type": "object"}
    return tool | ({"annotations": READ_ONLY} if name.endswith("_safe") else {})
