"""The backend for manual use: start it, then a gateway, then type help.

``python -m tests.support.remote_backend`` starts it. Answers go to stdout, other output to stderr.
"""

import argparse
import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from tests.support.remote_backend.backend import running_backend
from tests.support.remote_backend.commands import CommandError, Console, needs_gateway

INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(words)
    try:
        return asyncio.run(serve(chosen))
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        note(f"Cannot listen: {error}. Try --port 0.")
        return 1


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="remote_backend",
        description="A small backend that MCP Tools Proxy dials in remote mode.",
        allow_abbrev=False,
    )
    words.add_argument("--host", default="127.0.0.1", help="where to listen (%(default)s)")
    words.add_argument("--port", type=int, default=8765, help="0 is any (%(default)s)")
    words.add_argument("--token", default="demo", help="what gateways have to say (%(default)s)")
    words.add_argument("--identifier", help="use only this gateway (default: the newest)")
    words.add_argument(
        "--run", action="append", metavar="COMMAND", help="run this and end; may be repeated"
    )
    words.add_argument(
        "--wait",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="how long --run waits for a gateway (%(default)g)",
    )
    return words


async def serve(chosen: argparse.Namespace) -> int:
    options = {"token": chosen.token, "host": chosen.host, "port": chosen.port}
    async with running_backend(**options, report=note) as backend:
        note("Listening. A gateway connects when it is started with")
        note(f"  MCP_PROXY_REMOTE_URL={backend.url}")
        note(f"  MCP_PROXY_REMOTE_TOKEN={chosen.token}")
        console = Console(backend, chosen.identifier)
        if chosen.run:
            return await run_all(console, chosen.run, chosen.wait)
        note("Type help for the commands, quit to end.")
        async for line in typed():
            if line == "quit":
                break
            if line:
                await obey(console, line, wait_s=None)
        return 0


async def run_all(console: Console, lines: Sequence[str], wait_s: float) -> int:
    """Run every line, even after a failed one."""
    results = [await obey(console, line, wait_s) for line in lines]
    return 0 if all(results) else 1


async def obey(console: Console, line: str, wait_s: float | None) -> bool:
    """Run one line once a gateway is connected; return whether it got a result."""
    identifier = console.server_identifier
    if needs_gateway(line) and not console.backend.is_connected(identifier):
        note(f"Waiting for {identifier or 'a gateway'} ...")
        try:
            await console.backend.connected(identifier, bound_s=wait_s)
        except AssertionError:
            note(f"No gateway connected within {wait_s:g} s.")
            return False
    try:
        answer = await console.run(line)
    except CommandError as error:
        note(str(error))
        return False
    print(answer, flush=True)  # noqa: T201 - the answer to a command
    return True


async def typed() -> AsyncIterator[str]:
    """Yield the lines of stdin: a terminal, a pipe or a file."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with (
            suppress(RuntimeError),  # the loop has closed
            open(0, "rb", buffering=0, closefd=False) as stdin,
        ):
            for line in stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line.decode(errors="replace"))
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line.strip()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - for the user


if __name__ == "__main__":
    sys.exit(main())
