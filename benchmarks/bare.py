"""What the service is compared with: bare FastAPI endpoints and raw ASGI, with a fixed answer.

The same uvicorn (uvloop, httptools, no access log) and the same bytes of JSON in and out.
"""

import json
import sys
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Literal

import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from benchmarks.messages import EXECUTE, TOOLS


class User(BaseModel):
    user_id: str
    tenant_id: str
    roles: list[str] = []


class Execute(BaseModel):
    """The service's request."""

    tool_name: str
    arguments: dict[str, object] = {}
    user: User
    agent: str | None = None
    trace_id: str


class Envelope(BaseModel):
    """The service's answer."""

    status: Literal["ok"]
    result: dict[str, object]
    trace_id: str


def fastapi_app(answer: bytes) -> FastAPI:
    """Answer one route through FastAPI's own request and response models."""
    app = FastAPI()
    result: dict[str, object] = json.loads(answer)["result"]

    @app.post(EXECUTE, response_model=Envelope)
    async def execute(request: Execute) -> dict[str, object]:
        return {"status": "ok", "result": result, "trace_id": request.trace_id}

    return app


def list_app(bodies: Sequence[bytes]) -> FastAPI:
    """Answer with the bodies in turn: GET tools, and what is posted to any path."""
    app = FastAPI()
    in_turn = cycle(bodies)

    @app.get(TOOLS)
    @app.post("/{path:path}")
    async def tools() -> Response:
        return Response(next(in_turn), media_type="application/json")

    return app


def asgi_app(answer: bytes) -> ASGIApp:
    """Read the body, parse nothing, answer."""
    headers = [
        (b"content-length", str(len(answer)).encode()),
        (b"content-type", b"application/json"),
    ]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app


def serve(app: ASGIApp, port: int, *, lifespan: Literal["auto", "off"] = "auto") -> None:
    """Serve as the service is served."""
    uvicorn.run(
        app,
        port=port,
        loop="uvloop",
        http="httptools",
        lifespan=lifespan,
        log_level="warning",
        access_log=False,
        server_header=False,
    )


def main() -> None:
    """Serve ``kind`` with the answer of ``file`` on ``port``."""
    kind, file, port = sys.argv[1:]
    answer = Path(file).read_bytes()
    if kind == "fastapi":
        serve(fastapi_app(answer), int(port))
    elif kind == "list":
        serve(list_app(answer.splitlines()), int(port))
    else:
        serve(asgi_app(answer), int(port), lifespan="off")


if __name__ == "__main__":
    main()
