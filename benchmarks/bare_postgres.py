"""A bare FastAPI endpoint that reads pages with the gateway's statements, by the same driver."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import uvicorn
from fastapi import FastAPI

from benchmarks.bare import Envelope, Execute
from benchmarks.messages import EXECUTE
from mcp_tools_proxy.documents.postgres.statements import PAGES


async def _keep(_connection: asyncpg.Connection) -> None:
    """Reset nothing, as the gateway."""


def app_over(url: str) -> FastAPI:
    """Answer one route: begin, set the tenant, read, commit."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.pool = await asyncpg.create_pool(url, min_size=0, max_size=16, reset=_keep)
        yield
        app.state.pool.terminate()

    app = FastAPI(lifespan=lifespan)

    @app.post(EXECUTE, response_model=Envelope)
    async def execute(request: Execute) -> dict[str, object]:
        arguments, tenant_id = request.arguments, request.user.tenant_id
        async with app.state.pool.acquire() as connection, connection.transaction():
            await connection.execute(
                "SELECT set_config('mcp_tools_proxy.tenant', $1, true)", tenant_id
            )
            row = await connection.fetchrow(
                PAGES,
                tenant_id,
                arguments["doc_id"],
                arguments["page_start"],
                arguments["page_end"],
            )
        result = {"text": "\n\n".join(row["pages"]), "doc_id": arguments["doc_id"]}
        return {"status": "ok", "result": result, "trace_id": request.trace_id}

    return app


if __name__ == "__main__":
    uvicorn.run(
        app_over(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning",
        access_log=False,
    )  # fmt: skip
