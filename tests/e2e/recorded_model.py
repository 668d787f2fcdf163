"""A fake model API that returns recorded replies and stores its requests."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Json = dict[str, Any]


class RecordedModel:
    """``requests`` are the received bodies; each is answered with the next reply."""

    def __init__(self, replies: Sequence[Json], port: int) -> None:
        self.requests: list[Json] = []
        self.replies = list(replies)
        self.url = f"http://127.0.0.1:{port}"


@contextmanager
def recorded_model(replies: Sequence[Json]) -> Iterator[RecordedModel]:
    """Serve the replies on a port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            model.requests.append(json.loads(body))
            answer = json.dumps(model.replies[len(model.requests) - 1]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        model = RecordedModel(replies, server.server_port)
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
