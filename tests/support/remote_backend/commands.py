import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.support.remote_backend.backend import Backend
from tests.support.remote_backend.session import Json, Session

MAX_SESSIONS = 10_000


class CommandError(Exception):
    """A command failed; the message has the reason."""


class Console:
    """Runs commands, each over sessions of one gateway (None is the newest connected one)."""

    def __init__(self, backend: Backend, server_identifier: str | None = None) -> None:
        self.backend = backend
        self.server_identifier = server_identifier
        self._session = self.new_session()
        self._raw = self.new_session()

    def new_session(self) -> Session:
        return self.backend.session(server_identifier=self.server_identifier)

    async def run(self, line: str) -> str:
        """Run one line and return the answer's text; CommandError if it fails."""
        name, _, rest = line.strip().partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise CommandError(f"Unknown command {name!r}. Type help for the list.")
        try:
            return await command.run(self, rest.strip())
        except AssertionError as error:  # a wait that took too long, or no link
            raise CommandError(str(error)) from error

    async def request(self, method: str, params: Json | None = None) -> Json:
        """Send a request to the gateway; CommandError with the message of an error response."""
        return result_of(await self._session.request(method, params))

    async def list_all(self, kind: str) -> str:
        """List every page of tools, prompts or resources, a line for each, without schemas."""
        items: list[Json] = []
        params: Json = {}
        while True:
            page = await self.request(f"{kind}/list", params)
            items += page[kind]
            if (cursor := page.get("nextCursor")) is None:
                return "\n".join(json.dumps(_shown(item), ensure_ascii=False) for item in items)
            params = {"cursor": cursor}

    async def named(self, method: str, rest: str, *, usage: str) -> str:
        """Request an item with a name and arguments: ``NAME {json}``."""
        name, _, arguments = rest.partition(" ")
        if not name:
            raise CommandError(f"Usage: {usage}")
        params = {"name": name, "arguments": parsed(arguments or "{}")}
        return pretty(await self.request(method, params))

    async def raw(self, text: str) -> str:
        """Send a message unchanged, in a session reserved for that, and wait for its answer."""
        message = parsed(text)
        await self._raw.send(message)
        if "id" not in message or "method" not in message:
            return "sent"
        while True:
            answer = await self._raw.receive()
            if answer.get("id") == message["id"] and "method" not in answer:
                return pretty(result_of(answer))

    async def sessions(self, text: str) -> str:
        """List the tools in many new sessions in parallel, and count the tools of each."""
        if not text.isdecimal() or not 1 <= int(text) <= MAX_SESSIONS:
            raise CommandError(f"Usage: sessions N, with N from 1 to {MAX_SESSIONS}")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with asyncio.TaskGroup() as tasks:
            counting = [tasks.create_task(self._count_tools()) for _ in range(int(text))]
        got = Counter(each.result() for each in counting)
        return json.dumps({"sessions": got, "seconds": round(loop.time() - begun, 3)})

    async def drop(self) -> str:
        self.backend.link(self.server_identifier).drop()
        return "dropped"

    async def _count_tools(self) -> str:
        session = self.new_session()
        try:
            tools = result_of(await session.request("tools/list"))["tools"]
        except (AssertionError, CommandError) as error:
            return str(error)
        finally:
            self.backend.forget(session)
        return f"tools: {len(tools)}"


@dataclass(frozen=True, slots=True)
class Command:
    """One command; ``usage`` is its syntax."""

    usage: str
    about: str
    run: Callable[[Console, str], Awaitable[str]]


async def _help(_: Console, __: str) -> str:
    lines = [(each.usage, each.about) for each in LISTED]
    lines.append(("quit", "end, as the end of input and Ctrl+C do"))
    return "\n".join(f"{usage:<20}{about}" for usage, about in lines)


async def _call(console: Console, rest: str) -> str:
    return await console.named("tools/call", rest, usage="call NAME {json}")


async def _prompt(console: Console, rest: str) -> str:
    return await console.named("prompts/get", rest, usage="prompt NAME {json}")


async def _read(console: Console, rest: str) -> str:
    return pretty(await console.request("resources/read", {"uri": rest}))


LISTED = (
    Command("tools", "list the tools, one a line", lambda it, _: it.list_all("tools")),
    Command("call NAME {json}", "call a tool; without arguments {} is sent", _call),
    Command("prompts", "list the prompts, one a line", lambda it, _: it.list_all("prompts")),
    Command("prompt NAME {json}", "get a prompt", _prompt),
    Command("resources", "list the resources, one a line", lambda it, _: it.list_all("resources")),
    Command("read URI", "read a resource", _read),
    Command("sessions N", "list the tools in N new sessions at once", lambda it, n: it.sessions(n)),
    Command("raw {json}", "send a JSON-RPC message unchanged", lambda it, text: it.raw(text)),
    Command("drop", "abort the connection; the gateway dials again", lambda it, _: it.drop()),
    Command("help", "show this list", _help),
)
COMMANDS = {each.usage.partition(" ")[0]: each for each in LISTED}


def needs_gateway(line: str) -> bool:
    """Return whether a line is a command that needs a gateway's answer."""
    command = COMMANDS.get(line.strip().partition(" ")[0])
    return command is not None and command.run is not _help


def _shown(item: Json) -> Json:
    return {key: item[key] for key in ("name", "uri", "description") if key in item}


def parsed(text: str) -> Json:
    """Read a JSON object; CommandError if it is invalid."""
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise CommandError(f"Invalid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CommandError("A JSON object is wanted, such as {}")
    return value


def result_of(answer: Json) -> Json:
    """Return a response's result. Raises CommandError for an error."""
    if "result" not in answer:
        raise CommandError(json.dumps(answer.get("error", answer), ensure_ascii=False))
    result: Json = answer["result"]
    return result


def pretty(value: Json) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
