"""The raw server as a program: ``python -m tests.support.mcp_servers.raw --transport stdio``.

Over stdio it needs only the standard library and starts in well under 100 ms.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence

from tests.support.mcp_servers.raw_duplex import Conversation
from tests.support.mcp_servers.raw_script import Options, Script, die
from tests.support.mcp_servers.raw_tools import GARBAGE, HALF, Fault, Json

MAX_LINE_BYTES = 64 * 1024 * 1024


def main(words: Sequence[str] | None = None) -> None:
    chosen = parser().parse_args(words)
    script = Script(options_of(chosen))
    if chosen.banner:
        sys.stdout.write(f"{chosen.banner}\n")
        sys.stdout.flush()
    if chosen.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if chosen.transport == "stdio":
        asyncio.run(serve_stdio(script, stubborn=chosen.stubborn))
    else:
        from tests.support.mcp_servers.raw_web import serve  # noqa: PLC0415 - stdio starts without aiohttp

        asyncio.run(serve(script, chosen.transport, chosen.host, chosen.port))


def parser() -> argparse.ArgumentParser:
    """Build the parser of the command line; repeating an option gives a list."""
    words = argparse.ArgumentParser(prog="raw")
    words.add_argument("--transport", choices=["stdio", "http", "sse", "ws"], default="stdio")
    words.add_argument("--host", default="127.0.0.1")
    words.add_argument("--port", type=int, default=0)
    words.add_argument("--name", default="raw")
    words.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    words.add_argument("--tools", type=int, default=0)
    words.add_argument("--only", action="append")
    words.add_argument("--extra", type=json.loads, default={}, help="descriptors by list, as JSON")
    words.add_argument("--without", action="append", default=[])
    words.add_argument("--page-size", type=int, default=0)
    words.add_argument("--delay-s", type=float, default=0.0)
    words.add_argument("--mute", action="append", default=[])
    words.add_argument("--die-on", action="append", default=[])
    words.add_argument("--no-list-changed", action="store_true")
    words.add_argument("--sse", action="store_true", help="http: answer as event streams")
    words.add_argument("--stateless", action="store_true", help="http: no session ids")
    words.add_argument("--journal", default="", help="a file that gets a line for what is asked")
    words.add_argument("--banner", help="a line on stdout before anything else")
    words.add_argument("--stubborn", action="store_true", help="outlive stdin's end and SIGTERM")
    return words


def options_of(chosen: argparse.Namespace) -> Options:
    return Options(
        name=chosen.name,
        era=chosen.era,
        tools=chosen.tools,
        only=None if chosen.only is None else tuple(chosen.only),
        extra=chosen.extra,
        without=tuple(chosen.without),
        page_size=chosen.page_size,
        delay_s=chosen.delay_s,
        mute=tuple(chosen.mute),
        die_on=tuple(chosen.die_on),
        list_changed=not chosen.no_list_changed,
        sse=chosen.sse,
        stateless=chosen.stateless,
        journal=chosen.journal,
    )


async def serve_stdio(script: Script, *, stubborn: bool) -> None:
    lines = asyncio.StreamReader(limit=MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with asyncio.TaskGroup() as tasks:
        conversation = Conversation(script, tasks, write)
        while line := await lines.readline():
            conversation.take(line)
        if stubborn:
            await asyncio.Event().wait()
        conversation.close()


def write(item: Json | Fault) -> None:
    match item:
        case Fault.CRASH:
            die()
        case Fault.GARBAGE:
            _put(f"{GARBAGE}\n")
        case Fault.HALF:
            _put(HALF)
            die()
        case _:
            _put(json.dumps(item, separators=(",", ":")) + "\n")


def _put(text: str) -> None:
    rest = memoryview(text.encode())
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main()
