"""What a token for the server costs a downstream call, once it is there."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.bench import Bench
from benchmarks.configuration import over_http, write_configuration
from benchmarks.echo import ECHO
from benchmarks.echo_calls import PRESET, SERVER, TOOL, executed
from benchmarks.fleet import wait_until_ready
from benchmarks.paired import Comparison, measure_by_turns, table_of
from benchmarks.report import Result
from benchmarks.responder import MODERN_PATH
from benchmarks.servers import Server, fleet, gateway

LIMIT = 1.05


def measure_server_tokens(bench: Bench) -> Result:
    """Compare calls of one server through two gateways: one has tokens of an issuer for it."""
    rounds, calls = bench.sizes.ratio_rounds, bench.sizes.ratio_calls
    with ExitStack() as stack:
        (downstream,) = stack.enter_context(fleet(bench.workdir))
        issuer = stack.enter_context(_issuer())
        auth = {
            "type": "oauth",
            "grant": "client_credentials",
            "clientId": "bench",
            "clientSecret": "bench",
            "authorizationServer": issuer,
        }
        plain, with_token = (
            stack.enter_context(_gateway(bench, name, downstream, more))
            for name, more in (("plain", {}), ("token", {"auth": auth}))
        )
        comparison = Comparison(
            name="echo, with a token that is there / without",
            limit=LIMIT,
            ours=executed(with_token, 1, calls, tool=TOOL),
            other=executed(plain, 1, calls, tool=TOOL),
        )
        measure_by_turns(bench, [comparison], rounds)
    result = table_of("A downstream call with a token for the server", [comparison])
    result.targets = [comparison.target]
    return result


@contextmanager
def _gateway(
    bench: Bench, name: str, downstream: Server, more: Mapping[str, object]
) -> Iterator[Server]:
    servers = {SERVER: {**over_http(downstream.port, MODERN_PATH), **more}}
    folder = bench.workdir / f"server-tokens-{name}-config"
    settings = write_configuration(folder, servers, {PRESET: [(SERVER, ECHO)]})
    with gateway(bench.workdir, bench.folder(f"server-tokens-{name}"), settings) as service:
        wait_until_ready(service, 1)
        yield service


@contextmanager
def _issuer() -> Iterator[str]:
    """Serve an issuer whose tokens live for a day, and yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Issuer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Issuer(BaseHTTPRequestHandler):
    """Answers with its metadata, and with a token."""

    def do_GET(self) -> None:
        """Send the metadata."""
        address = f"http://{self.headers['Host']}"
        self._send({"issuer": address, "token_endpoint": f"{address}/token"})

    def do_POST(self) -> None:
        """Send a token."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._send({"access_token": "t" * 800, "token_type": "Bearer", "expires_in": 86_400})

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _send(self, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
