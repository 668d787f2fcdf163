"""The HTTP application: one endpoint, its checks, and its errors as JSON (README.md, T-03).

Its settings are ``RETRIEVAL_*`` and ``.env``, read once at start.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Literal

import structlog
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from starlette.exceptions import HTTPException as RoutingError

from mcp_tools_proxy.documents.chunk_windows import LocalRetrieval, WantedWindow
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.open_documents import build_documents, seed_documents
from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.errors import (
    AccessDenied,
    ChunkNotFound,
    DocumentNotFound,
    InvalidRequest,
    ProxyError,
)
from mcp_tools_proxy.telemetry.logging import flush_logs
from mcp_tools_proxy.telemetry.metrics import Metrics
from mcp_tools_proxy.wire.identifiers import Identifier
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of
from mcp_tools_proxy.wire.strict_json import parse_strict

ENV_PREFIX = "RETRIEVAL_"


class SettingsError(Exception):
    """A setting has a bad value; one line that names the variable and never the value."""


class RetrievalSettings(BaseSettings):
    """Everything that an operator can set; an empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    documents_path: Path = Path("./documents")
    """Folder of document files, the same as the gateway's (contract §5); it may not exist yet."""
    documents_url: SecretStr | None = None
    """PostgreSQL that holds the documents in place of the folder, the same as the gateway's."""
    documents_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    """Seconds that one request may wait for the database in all."""
    documents_stale_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds that cached documents are served while the database is not reachable; 0 is never."""
    cache_dir: Path | None = None
    """Folder for what is known of document files; unset, one in the system's temporary folder."""
    documents_cache_bytes: Annotated[int, Field(ge=1)] = 67_108_864
    """Bytes of memory for the texts of the documents used last."""
    token: SecretStr | None = None
    """Bearer token that callers must send; unset, only loopback may be listened on."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8083
    """Port to listen on; 0 takes a free one."""
    mock_mode: bool = True
    """Hold the seed document ``doc_1`` of ``tenant_1`` (T-05)."""
    max_window: Annotated[int, Field(ge=1)] = 101
    """Largest window served, in chunks: window_before + window_after + 1."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level to log."""


def load_settings() -> RetrievalSettings:
    """Read the environment. Raises SettingsError naming each bad variable, in one line."""
    try:
        return RetrievalSettings()
    except ValidationError as error:
        problems = (f"{ENV_PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise SettingsError("; ".join(problems)) from None


WINDOW_PATH = "/internal/retrieval/chunks/window"
"""Path of the endpoint; the gateway's ``retrieval_window_url`` ends in it."""

MAX_REQUEST_BYTES = 64 * 1024
"""A larger request is refused; a valid one is below 4 KiB."""

MAX_JSON_ITEMS = 10_000
"""Values in the JSON of a request, such as roles."""

log = structlog.get_logger()


class Unauthenticated(ProxyError):
    """The bearer token is missing or wrong."""

    code = "UNAUTHENTICATED"


_STATUS: dict[type[ProxyError], int] = {
    InvalidRequest: 400,
    Unauthenticated: 401,
    AccessDenied: 403,
    DocumentNotFound: 404,
    ChunkNotFound: 404,
}


class WindowRequest(BaseModel, strict=True):
    """The body of a request; unknown keys are ignored.

    With ``user_id`` or ``roles`` the document's readers are checked. Without either the gateway
    has done so.
    """

    tenant_id: Identifier
    user_id: Identifier | Literal[""] | None = None
    roles: list[str] | None = None
    doc_id: Identifier
    anchor_chunk_id: Identifier
    window_before: Annotated[int, Field(ge=0)] = 0
    window_after: Annotated[int, Field(ge=0)] = 0
    trace_id: str | None = None

    @property
    def names_caller(self) -> bool:
        """Whether the request says who asks."""
        return self.user_id is not None or self.roles is not None

    def window(self) -> WantedWindow:
        """Return the wanted window, of who asks as far as the request says it."""
        return WantedWindow(
            caller=Caller(
                tenant_id=self.tenant_id, user_id=self.user_id or "", roles=tuple(self.roles or ())
            ),
            doc_id=self.doc_id,
            anchor_chunk_id=self.anchor_chunk_id,
            before=self.window_before,
            after=self.window_after,
            trace_id=self.trace_id or "",
        )


class ChunkEntry(BaseModel):
    """One chunk of the answer; ``page`` is 1-based, ``chunk_index`` 0-based in the document.

    ``start_char`` and ``end_char`` are its place in the page's text, if it stands there; ``ocr`` is
    how sure the OCR of its page was, in per cent, if the page was read by OCR. ``columns`` has the
    names of the columns if the chunk starts within a table.
    """

    chunk_id: str
    page: int
    chunk_index: int
    text: str
    start_char: int | None
    end_char: int | None
    version: str
    ocr: int | None
    columns: str | None


class WindowAnswer(BaseModel):
    """The window's chunks in reading order."""

    chunks: list[ChunkEntry]


class Health(BaseModel):
    """The process serves."""

    status: str = "ok"


def create_app(settings: RetrievalSettings) -> FastAPI:
    """Build the service; its lifespan loads the documents folder and watches it."""
    metrics = Metrics()
    url = settings.documents_url
    documents = build_documents(
        folder=settings.documents_path,
        cache_dir=settings.cache_dir,
        url=None if url is None else url.get_secret_value(),
        timeout_s=settings.documents_timeout,
        stale_s=settings.documents_stale_s,
        metrics=metrics,
    )
    repository = DocumentRepository(
        documents.store,
        cache_bytes=settings.documents_cache_bytes,
        hide_foreign_documents=False,
        metrics=metrics,
    )
    for document in seed_documents() if settings.mock_mode else ():
        repository.hold(document)
    of_caller = LocalRetrieval(repository)
    of_tenant = LocalRetrieval(repository, for_any_reader=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await documents.connect()
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(documents.run())
            yield
            watching.cancel()
        repository.close()
        await documents.close()
        flush_logs()  # uvicorn may end the process by the signal it received

    async def window(request: Request) -> WindowAnswer:
        _check_token(request, settings.token)
        wanted = _parse(await _read_body(request), settings.max_window)
        retrieval = of_caller if wanted.names_caller else of_tenant
        chunks = await retrieval.window(wanted.window())
        log.info(
            "retrieval.window",
            trace_id=wanted.trace_id,
            tenant_id=wanted.tenant_id,
            doc_id=wanted.doc_id,
            chunks=len(chunks),
        )
        return WindowAnswer.model_validate({"chunks": chunks}, from_attributes=True)

    async def health() -> Health:
        return Health()

    app = FastAPI(title="retrieval-service", lifespan=lifespan, openapi_url=None)
    app.post(WINDOW_PATH)(window)
    app.get("/health")(health)
    app.add_exception_handler(ProxyError, _show_error)
    app.add_exception_handler(RoutingError, _show_routing_error)
    return app


def _check_token(request: Request, token: SecretStr | None) -> None:
    if token is None:
        return
    expected = f"Bearer {token.get_secret_value()}".encode()
    received = request.headers.get("Authorization", "").encode("latin-1")
    if not hmac.compare_digest(received, expected):
        raise Unauthenticated("send Authorization: Bearer with this service's token")


async def _read_body(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_REQUEST_BYTES:
            raise InvalidRequest(f"the request is over {MAX_REQUEST_BYTES} bytes")
    return bytes(body)


def _parse(body: bytes, max_window: int) -> WindowRequest:
    try:
        wanted = WindowRequest.model_validate(parse_strict(body, max_items=MAX_JSON_ITEMS))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise InvalidRequest(f"{place_of(first, whole='body')}: {problem_of(first)}") from error
    except ValueError as error:
        raise InvalidRequest(f"body: {error}") from error
    size = wanted.window_before + wanted.window_after + 1
    if size > max_window:
        raise InvalidRequest(f"a window holds at most {max_window} chunks, {size} were asked for")
    return wanted


async def _show_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, ProxyError):
        raise error
    return _error(_STATUS[type(error)], error.code, error.message)


async def _show_routing_error(_: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, RoutingError):
        raise error
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(error.status_code, "INVALID_REQUEST")
    return _error(error.status_code, code, error.detail)


def _error(status: int, code: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status_code=status)
