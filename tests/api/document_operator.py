"""An operator's requests about documents."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.support.service import Service, running
from tests.support.tokens import bearer, file_token

ADMIN = "an-admin-token-of-16"
LIST, CONTENT, RIGHTS = (f"/internal/documents{it}" for it in ("", "/content", "/rights"))
DOC = {"tenant_id": "acme", "doc_id": "a/b «ж»"}
NOTE = b"# A note\n\nText.\n"
NEW = {"If-None-Match": "*"}
MARKDOWN = {"Content-Type": "text/markdown; charset=utf-8"}


class Operator:
    def __init__(self, service: Service, token: str = ADMIN) -> None:
        self.service = service
        self.headers = bearer(token)

    async def send(
        self, method: str, path: str, query: Any = DOC, content: Any = None, **headers: str
    ) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.service.http.request(
            method, path, params=query, content=content, headers=self.headers | named
        )

    async def put_note(
        self, content: Any = NOTE, query: Any = DOC, **headers: str
    ) -> httpx.Response:
        return await self.send("PUT", CONTENT, query, content, **(MARKDOWN | (headers or NEW)))

    async def put_json(
        self, text: str = "Text.", query: Any = DOC, *, more: Any = None, **headers: str
    ) -> httpx.Response:
        """Put a document of one page as JSON, which needs no import process."""
        key = {name: query[name] for name in ("tenant_id", "doc_id")}
        content = json.dumps({**key, "title": "A note", "pages": [text], **(more or {})})
        kind = "application/json"
        return await self.send(
            "PUT", CONTENT, query, content, Content_Type=kind, **(headers or NEW)
        )

    async def code(self, **call: Any) -> str:
        user = {"user_id": "bob", "tenant_id": "acme"} | call
        body = {
            "tool_name": "read_doc_metadata",
            "arguments": {"doc_id": DOC["doc_id"]},
            "user": user,
        }
        envelope = (await self.service.http.post("/internal/mcp/execute", json=body)).json()
        return str(envelope["error"]["code"]) if "error" in envelope else "OK"


@asynccontextmanager
async def operated(**settings: Any) -> AsyncIterator[Operator]:
    async with running(admin_token=ADMIN, **settings) as service:
        yield Operator(service)


def outcome(response: httpx.Response) -> tuple[int, str | None]:
    """Return the status and the error code, if there is an error."""
    error = response.json().get("error")
    return response.status_code, error and error["code"]


async def tenant_operators(service: Service) -> tuple[Operator, Operator, Operator]:
    """Return operators of acme, of another tenant, and of acme without the right to documents."""
    mine, others, no_right = (
        Operator(service, file_token(tenant=tenant, may=[right]))
        for tenant, right in (
            ("acme", OperatorRight.DOCUMENTS),
            ("globex", OperatorRight.DOCUMENTS),
            ("acme", OperatorRight.AUDIT),
        )
    )
    assert service.gateway.tokens is not None
    await service.gateway.tokens.load()
    return mine, others, no_right
