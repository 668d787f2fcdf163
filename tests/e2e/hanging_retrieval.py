"""A Retrieval Service on a real socket that answers only on demand."""

import json
import threading
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import TracebackType
from typing import Self

from tests.support.bounds import BOUND_S

DRIP_S = 1.0

ANSWER = json.dumps(
    {"chunks": [{"chunk_id": "p1-c1", "page": 1, "chunk_index": 0, "text": "a chunk"}]}
).encode()
HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    f"Content-Length: {len(ANSWER)}\r\n\r\n"
).encode()


class HangingRetrieval:
    """Counts requests and clients that disconnected; use as a context manager.

    With ``drips`` it sends its head immediately and then one byte of its answer per second."""

    def __init__(self, *, drips: bool = False) -> None:
        self.drips = drips
        self.answer = threading.Event()
        self._changed = threading.Condition()
        self._requests = 0
        self._hang_ups = 0
        self._server = _Server(self)
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
        self.answer.set()
        self._server.shutdown()
        self._server.server_close()

    def answer_all(self) -> None:
        self.answer.set()

    def wait_for_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._requests >= count, BOUND_S)

    def wait_for_hang_ups(self, count: int) -> None:
        """Wait until ``count`` clients have disconnected before an answer."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._hang_ups >= count, BOUND_S)

    def note(self, *, requests: int = 0, hang_ups: int = 0) -> None:
        with self._changed:
            self._requests += requests
            self._hang_ups += hang_ups
            self._changed.notify_all()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, retrieval: HangingRetrieval) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.retrieval = retrieval


class _Handler(StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        retrieval = self.server.retrieval
        self._read_request()
        retrieval.note(requests=1)
        try:
            if retrieval.drips:
                self._drip(retrieval.answer)
            elif self._hangs_up_before(retrieval.answer):
                retrieval.note(hang_ups=1)
            else:
                self.wfile.write(HEAD + ANSWER)
        except OSError:
            return

    def _drip(self, stop: threading.Event) -> None:
        self.wfile.write(HEAD)
        for byte in ANSWER:
            self.wfile.write(bytes([byte]))
            if stop.wait(DRIP_S):
                return

    def _hangs_up_before(self, answer: threading.Event) -> bool:
        self.connection.settimeout(0.02)
        while not answer.is_set():
            try:
                if self.connection.recv(1) == b"":
                    return True
            except TimeoutError:
                continue
        return False

    def _read_request(self) -> None:
        length = 0
        while (line := self.rfile.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
        self.rfile.read(length)
