"""Reference: bare FastAPI endpoints with a fixed response.

They use the same uvicorn (uvloop, httptools, no access log) and the same JSON requests and
responses.
"""

import json
import sys
from pathlib import Path
from typing import Literal

import uvicorn
from fastapi import FastAPI, Response
from pydantic import BaseModel
from starlette.types import ASGIApp

from benchmarks.messages import EXECUTE


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
    """The service's response."""

    status: Literal["ok"]
    result: dict[str, object]
    trace_id: str


def fastapi_app(answer: bytes) -> FastAPI:
    """Serve one route through FastAPI's request and response models."""
    app = FastAPI()
    result: dict[str, object] = json.loads(answer)["result"]

    @app.post(EXECUTE, response_model=Envelope)
    async def execute(request: Execute) -> dict[str, object]:
        return {"status": "ok", "result": result, "trace_id": request.trace_id}

    return app


def list_app(answer: bytes) -> FastAPI:
    """Serve a fixed response to POST on any path."""
    app = FastAPI()

    @app.post("/{path:path}")
    async def tools() -> Response:
        return Response(answer, media_type="application/json")

    return app


def serve(app: ASGIApp, port: int, *, lifespan: Literal["auto", "off"] = "auto") -> None:
    """Serve an app like the service."""
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
    """Serve ``kind`` with the response of ``file`` on ``port``."""
    kind, file, port = sys.argv[1:]
    answer = Path(file).read_bytes()
    if kind == "fastapi":
        serve(fastapi_app(answer), int(port))
    else:
        serve(list_app(answer), int(port))


if __name__ == "__main__":
    main()
