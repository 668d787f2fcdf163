"""A Retrieval Service on a real socket that answers only when it is told to."""

import json
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import TracebackType
from typing import Self

WAIT_S = 15.0

ANSWER = json.dumps(
    {"chunks": [{"chunk_id": "p1-c1", "page": 1, "chunk_index": 0, "text": "a chunk"}]}
).encode()


class HangingRetrieval:
    """Counts requests and clients that hung up; use as a context manager."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests = 0
        self._hang_ups = 0
        self._answer = threading.Event()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/window"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._answer.set()
        self._server.shutdown()
        self._server.server_close()

    def answer_all(self) -> None:
        """Answer every request, those that wait and those to come."""
        self._answer.set()

    def wait_for_requests(self, count: int) -> None:
        """Wait until ``count`` requests have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._requests >= count, WAIT_S)

    def wait_for_hang_ups(self, count: int) -> None:
        """Wait until ``count`` clients have closed before they were answered."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._hang_ups >= count, WAIT_S)

    def _note(self, *, requests: int = 0, hang_ups: int = 0) -> None:
        with self._changed:
            self._requests += requests
            self._hang_ups += hang_ups
            self._changed.notify_all()

    def _handler(self) -> type[StreamRequestHandler]:
        retrieval = self

        class Handler(StreamRequestHandler):
            def handle(self) -> None:
                self._read_request()
                retrieval._note(requests=1)
                self.connection.settimeout(0.02)
                while not retrieval._answer.is_set():
                    try:
                        if self.connection.recv(1) == b"":
                            retrieval._note(hang_ups=1)
                            return
                    except TimeoutError:
                        continue
                    except OSError:
                        return
                self.wfile.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    + f"Content-Length: {len(ANSWER)}\r\n\r\n".encode()
                    + ANSWER
                )

            def _read_request(self) -> None:
                length = 0
                while (line := self.rfile.readline()) not in {b"\r\n", b""}:
                    name, _, value = line.decode().partition(":")
                    if name.lower() == "content-length":
                        length = int(value)
                self.rfile.read(length)

        return Handler


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256
