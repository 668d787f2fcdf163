"""An interpreter that has imported the program, and forks it.

Started as ``python -m tests.support.fork_server``. For each request on its socket it forks a
keeper, which forks the program, tells its process id, and then how it ended. It has one thread and
no event loop, so that a fork lacks nothing.
"""

import importlib
import json
import os
import socket
import sys
from contextlib import suppress

PROGRAM = "mcp_tools_proxy.cli.main"
IMPORTED = (
    PROGRAM,
    "mcp_tools_proxy.cli.check",
    "mcp_tools_proxy.server.stdio_server",
    "mcp_tools_proxy.server.uvicorn_server",
)
STREAMS = 3
MAX_REQUEST_BYTES = 100_000


def serve(channel: socket.socket) -> None:
    """Fork until the other side is gone; this returns in each program that is to run."""
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST_BYTES, STREAMS + 1)
        if not request:
            sys.exit()
        if os.fork() == 0:
            channel.close()
            fork_program(request, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork_program(request: bytes, descriptors: list[int]) -> None:
    """Return in the program; the keeper tells how it ended, and ends here."""
    *streams, keeper = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(keeper)
        become(**json.loads(request), streams=streams)
        return
    os.write(keeper, b"%d\n" % pid)
    for descriptor in (*range(STREAMS), *streams):
        os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    os.write(keeper, b"%d\n" % status)
    os._exit(0)


def become(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> None:
    """Set what a program inherits: arguments, folder, environment, streams."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    for name in [*os.environ]:  # noqa: TID251 - what the interpreter set for itself stays
        if name != "LC_CTYPE":
            del os.environ[name]  # noqa: TID251
    os.environ.update(environment)  # noqa: TID251
    sys.path[0] = folder
    sys.argv = [str(sys.modules[PROGRAM].__file__), *arguments]


if __name__ == "__main__":
    for module in IMPORTED:
        importlib.import_module(module)
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.modules[PROGRAM].main()
