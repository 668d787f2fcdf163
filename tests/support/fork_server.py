"""An interpreter that has imported the programs and forks them.

Started as ``python -m tests.support.fork_server``. For each request on its socket it forks a
keeper, which forks the program, sends its process id, and later its exit status. It has one thread
and no event loop, so forking is safe.
"""

import gc
import importlib
import json
import os
import socket
import sys
from contextlib import suppress

PROGRAM = "mcp_tools_proxy.cli.main"
RETRIEVAL_SERVICE = "retrieval_service.main"
REMOTE_BACKEND = "tests.support.remote_backend.__main__"
MEASURED_PROGRAM = "tests.support.measured_program"
IMPORTED = (
    PROGRAM,
    RETRIEVAL_SERVICE,
    REMOTE_BACKEND,
    MEASURED_PROGRAM,
    "mcp_tools_proxy.cli.check_command",
    "mcp_tools_proxy.server.stdio_server",
    "mcp_tools_proxy.server.uvicorn_server",
    "httpx",  # used by the commands that call a gateway
    "httpcore",  # httpx imports it with its first client
)
STREAMS = 3
MAX_REQUEST_BYTES = 100_000


def serve(channel: socket.socket) -> str:
    """Fork until the other side closes the socket; in each fork, return the module to run."""
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, STREAMS + 1)
        if not request:
            sys.exit()
        if os.fork() == 0:
            channel.close()
            return fork_program(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork_program(request: bytes, descriptors: list[int]) -> str:
    """Return the module in the program; the keeper sends the exit status and ends here."""
    *streams, keeper = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(keeper)
        return become(**json.loads(request), streams=streams)
    os.write(keeper, b"%d\n" % pid)
    for descriptor in (*range(STREAMS), *streams):
        os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    os.write(keeper, b"%d\n" % status)
    os._exit(0)


def become(
    module: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[int],
) -> str:
    """Set a program's arguments, folder, environment and streams; return its module."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    for name in [*os.environ]:  # noqa: TID251 - keeps the interpreter's own variables
        if name != "LC_CTYPE":
            del os.environ[name]  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    sys.path[0] = folder
    sys.argv = [str(sys.modules[module].__file__), *arguments]
    return module


if __name__ == "__main__":
    gc.disable()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # keeps the collector of programs from traversing imports and copying their pages
    gc.enable()
    program = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(sys.modules[program].main())
