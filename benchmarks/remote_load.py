"""The load generator of the connector: a backend that gateways dial. Jobs come as in ``load``.

Each session sends its next request when it has the answer to the last. Every answer is checked: it
arrives in the session that asked, under the id of its request, with the result that is expected.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any, NamedTuple

import uvloop
from aiohttp import WSMsgType, web
from pydantic_core import from_json

from benchmarks.load import JOB_LIMIT_S, Outcome

PATH = "/ws/{server_identifier}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJob:
    """``bodies`` are sent in turn, over the link of ``server_identifier``.

    ``answers`` are the structured content of good results, in turn as well. ``sessions`` sessions
    send at once, each under a name that begins with ``name``; ``opening`` is empty, or the request
    that is the first of a session and the notification that follows.
    """

    server_identifier: str
    name: str
    sessions: int
    opening: list[str]
    bodies: list[str]
    answers: list[object]
    calls: int


class _Exchange(NamedTuple):
    """A request, its id, and what its answer holds."""

    request: bytes
    id: int
    expected: object


class _Link:
    """One gateway's WebSocket; ``stray`` are the beginnings of frames that nobody waited for."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self.open_sessions: set[str] = set()
        self.stray: list[str] = []

    async def read(self) -> None:
        """Hand each message to the session that it is for, until the link ends."""
        try:
            async for frame in self._socket:
                envelope = from_json(frame.data)
                waiting = self._waiting.pop(envelope["session_identifier"], None)
                if waiting is None:
                    self.stray.append(frame.data[:500].decode(errors="replace"))
                else:
                    waiting.set_result(envelope["message"])
        finally:
            for waiting in self._waiting.values():
                waiting.set_exception(ConnectionError("the link ended"))

    async def send(self, session: str, message: bytes) -> None:
        """Send a message of a session. Raises ConnectionError."""
        frame = b'{"session_identifier":"%s","message":%s}' % (session.encode(), message)
        await self._socket.send_frame(frame, WSMsgType.TEXT)

    async def request(self, session: str, request: bytes) -> Any:
        """Return what arrives next in a session. Raises ConnectionError."""
        answer = self._waiting[session] = asyncio.get_running_loop().create_future()
        await self.send(session, request)
        return await answer


class _Run:
    """What the sessions of one job share: the requests left to send and the outcome."""

    def __init__(self, job: RemoteJob) -> None:
        self._exchanges = [
            _Exchange(body.encode(), json.loads(body)["id"], expected)
            for body, expected in zip(job.bodies, cycle(job.answers), strict=False)
        ]
        self._opening = [message.encode() for message in job.opening]
        self._left = job.calls
        self.outcome = Outcome()

    async def speak(self, link: _Link, session: str) -> None:
        """Send requests in a session, as long as there are any."""
        try:
            await self._open(link, session)
            while self._left > 0:
                self._left -= 1
                exchange, started = (
                    self._exchanges[self._left % len(self._exchanges)],
                    time.perf_counter(),
                )
                answer = await link.request(session, exchange.request)
                self.outcome.starts.append(started)
                self.outcome.times.append(time.perf_counter() - started)
                if not _is_good(answer, exchange):
                    self.failed(f"{exchange.id} in {session}: {str(answer)[:500]}")
        except ConnectionError as error:
            self.failed(f"{session}: {error}")

    async def _open(self, link: _Link, session: str) -> None:
        if not self._opening or session in link.open_sessions:
            return
        request, notice = self._opening
        answer = await link.request(session, request)
        if "result" not in answer:
            self.failed(f"{session} does not open: {str(answer)[:500]}")
        await link.send(session, notice)
        link.open_sessions.add(session)

    def failed(self, why: str) -> None:
        self.outcome.errors += 1
        self.outcome.first_error = self.outcome.first_error or why


class _Backend:
    """The links that gateways have dialled, by their identifiers."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}
        self._dialled = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Answer a gateway's handshake, and read what it sends."""
        socket = web.WebSocketResponse(
            protocols=("mcp",), max_msg_size=0, compress=False, decode_text=False
        )
        await socket.prepare(request)
        link = _Link(socket)
        self._links[request.match_info["server_identifier"]] = link
        self._dialled.set()
        await link.read()
        return socket

    async def run(self, job: RemoteJob) -> Outcome:
        """Do one job, once the gateway is there."""
        run = _Run(job)
        try:
            async with asyncio.timeout(JOB_LIMIT_S):
                link = await self._link_of(job.server_identifier)
                async with asyncio.TaskGroup() as sessions:
                    for number in range(job.sessions):
                        sessions.create_task(run.speak(link, f"{job.name}-{number}"))
                for frame in link.stray:
                    run.failed(f"unasked: {frame}")
                link.stray.clear()
        except TimeoutError:
            run.failed(f"not done after {JOB_LIMIT_S:.0f} s")
        return run.outcome

    async def _link_of(self, server_identifier: str) -> _Link:
        while server_identifier not in self._links:
            self._dialled.clear()
            await self._dialled.wait()
        return self._links[server_identifier]


def _is_good(answer: Mapping[str, Any], exchange: _Exchange) -> bool:
    result = answer.get("result", {})
    return answer.get("id") == exchange.id and result.get("structuredContent") == exchange.expected


async def _serve(port: int) -> None:
    """Do the jobs that stdin gives, and write the outcome of each as one line."""
    backend = _Backend()
    app = web.Application()
    app.router.add_get(PATH, backend.serve)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    while line := await asyncio.to_thread(sys.stdin.readline):
        outcome = await backend.run(RemoteJob(**json.loads(line)))
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        sys.stdout.flush()
    await runner.cleanup()


def main() -> None:
    """Serve on ``port`` until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    uvloop.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
