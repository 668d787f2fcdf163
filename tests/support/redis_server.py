import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_tools_proxy.app.workers import redis_program
from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port


class RedisServer:
    """One Redis or Valkey on 127.0.0.1 and on a Unix socket, without persistence.

    All calls block with a time limit.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._held: socket.socket | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix_url(self) -> str:
        return f"unix://{self._folder / 'redis.sock'}?db=0"

    def start(self) -> None:
        self._release_port()
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--dir": str(self._folder),
            "--unixsocket": "redis.sock",
            "--save": "",
            "--appendonly": "no",
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own binary and options
            [redis_program(), *(word for option in options.items() for word in option)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        ends = time.monotonic() + BOUND_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{redis_program()} did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill the process, like a crash, even if paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=BOUND_S)
            self._process = None
            self._hold_port()

    def end(self) -> None:
        self.stop()
        self._release_port()

    def pause(self) -> None:
        """Pause it; the kernel still accepts connections."""
        os.waitid(os.P_PID, self._signal(signal.SIGSTOP), os.WSTOPPED)  # it stops a moment later

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _hold_port(self) -> None:
        """Bind the port without listening: calls are refused, and no other process gets it.

        Another test's server once took it before this one was started again.
        """
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", self.port))

    def _release_port(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _signal(self, number: signal.Signals) -> int:
        if self._process is None:
            raise RuntimeError("the server is not running")
        self._process.send_signal(number)
        return self._process.pid

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    """Start a Redis in ``folder``, and always stop it after the block."""
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.end()
