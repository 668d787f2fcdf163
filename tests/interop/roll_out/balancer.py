"""A balancer without affinity: each request goes to the next active replica."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import ClientSession, ClientTimeout, web

HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


class Passed(NamedTuple):
    """A kind of request and its status."""

    method: str
    """A JSON-RPC method, or the HTTP method of a request without a body."""
    status: int


class Balancer:
    """Forwards and counts requests, and never sends one twice."""

    def __init__(self, http: ClientSession) -> None:
        self.url = ""
        self.passed: Counter[Passed] = Counter()
        self.pending: Counter[str] = Counter()
        """Number of open requests of each replica, without notification streams."""
        self._http = http
        self._replicas: list[str] = []
        self._turn = 0

    def put_in(self, replica: str) -> None:
        """Start sending requests to a replica's base URL."""
        self._replicas.append(replica)

    def take_out(self, replica: str) -> None:
        """Stop sending requests to it; open ones continue."""
        self._replicas.remove(replica)

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        """Forward a request to the next replica, and stream its response back."""
        body = await request.read()
        self._turn += 1
        replica = self._replicas[self._turn % len(self._replicas)]
        is_stream = request.method == "GET"
        self.pending[replica] += not is_stream
        try:
            return await self._pass_on_to(replica, request, body)
        finally:
            self.pending[replica] -= not is_stream

    async def _pass_on_to(
        self, replica: str, request: web.Request, body: bytes
    ) -> web.StreamResponse:
        method = json.loads(body).get("method", "answer") if body else request.method
        headers = {name: it for name, it in request.headers.items() if passes(name)}
        url = f"{replica}{request.rel_url}"
        async with self._http.request(request.method, url, headers=headers, data=body) as response:
            self.passed[Passed(method, response.status)] += 1
            back = {name: it for name, it in response.headers.items() if passes(name)}
            answer = web.StreamResponse(status=response.status, headers=back)
            await answer.prepare(request)
            async for chunk in response.content.iter_any():
                await answer.write(chunk)
            await answer.write_eof()
            return answer


def passes(header: str) -> bool:
    return header.lower() not in HOP_BY_HOP


@asynccontextmanager
async def balancing() -> AsyncIterator[Balancer]:
    """Run one on a free port; replicas must be added before the first request."""
    async with ClientSession(timeout=ClientTimeout(total=None), auto_decompress=False) as http:
        balancer = Balancer(http)
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", balancer.pass_on)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            balancer.url = f"http://{host}:{port}"
            yield balancer
        finally:
            await runner.cleanup()
