"""Helpers of the tests of document pages: documents uploaded by the API, and file forms."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import httpx

from mcp_tools_proxy.documents.document_file import dump_document
from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.kinds import import_data
from tests.support.console_browser import (
    ADMIN,
    ORIGIN,
    ConsoleBrowser,
    ConsoleService,
    Fields,
    Html,
)
from tests.support.tokens import bearer

LIST, READ, SEARCH, VERIFY, UPLOAD, MANAGE = (
    f"/console/documents{it}" for it in ("", "/read", "/search", "/verify", "/upload", "/manage")
)
PICTURE = "/console/documents/picture"
CONTENT = "/internal/documents/content"
SUFFIXES = {"text/markdown": ".md", "text/plain": ".txt"}
BOUNDARY = "a-boundary-of-the-tests"
NOTE = b"# A note\n\nThe tunnel ends after ten minutes.\n\n## On Linux\n\nRun the client.\n"


async def put(
    console: ConsoleService,
    doc_id: str = "note",
    content: bytes = NOTE,
    *,
    kind: str = "text/markdown",
    tenant_id: str = "acme",
    **query: str | Sequence[str],
) -> str:
    """Upload a document by the API; return its version.

    A text is sent in its imported form, which needs no import process."""
    if kind in SUFFIXES:
        content = _json_form(content, SUFFIXES[kind], tenant_id, doc_id, query)
        kind = "application/json"
    response = await console.service.http.put(
        CONTENT,
        params={"tenant_id": tenant_id, "doc_id": doc_id, **query},
        content=content,
        headers=bearer(ADMIN) | {"Content-Type": kind, "If-None-Match": "*"},
    )
    assert response.status_code == 201, response.text
    version: str = response.json()["version"]
    return version


def _json_form(
    content: bytes,
    suffix: str,
    tenant_id: str,
    doc_id: str,
    query: dict[str, str | Sequence[str]],
) -> bytes:
    """Return the JSON form of a text; remove import parameters from the query."""
    title, tags, language = (query.pop(name, None) for name in ("title", "tag", "language"))
    options = ImportOptions(
        tenant_id=tenant_id,
        doc_id=doc_id,
        stem=doc_id,
        title=None if title is None else str(title),
        tags=tuple([tags] if isinstance(tags, str) else tags or ()),
        language=None if language is None else str(language),
    )
    return dump_document(import_data(content, suffix, options))


async def facts(console: ConsoleService, tenant_id: str = "acme") -> Mapping[str, object]:
    response = await console.service.http.get(
        "/internal/documents", params={"tenant_id": tenant_id}, headers=bearer(ADMIN)
    )
    return {it["doc_id"]: it for it in response.json()["documents"]}


def page_of(name: str, doc_id: str = "note", *, tenant_id: str = "acme", **query: object) -> str:
    return f"{name}?{urlencode({'tenant_id': tenant_id, 'doc_id': doc_id, **query})}"


def file_form(fields: Fields, file_name: str | None, content: bytes = b"") -> bytes:
    """Build the body of a form with a file, which comes last as in browsers."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    if file_name is not None:
        head = (
            f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"'
        )
        parts.append(head.encode() + b"\r\nContent-Type: text/x-any\r\n\r\n" + content + b"\r\n")
    return b"".join([*parts, f"--{BOUNDARY}--\r\n".encode()])


async def send_form(
    browser: ConsoleBrowser, body: bytes, *, origin: str = ORIGIN
) -> httpx.Response:
    headers = {"content-type": f"multipart/form-data; boundary={BOUNDARY}", "origin": origin}
    return await browser.send("POST", UPLOAD, body, headers)


async def upload(
    browser: ConsoleBrowser,
    file_name: str | None = "note.md",
    content: bytes = NOTE,
    **fields: str,
) -> httpx.Response:
    page = await browser.open(UPLOAD)
    csrf = page.form(UPLOAD).fields["csrf"]
    body = file_form({"csrf": csrf, "tenant_id": "acme", **fields}, file_name, content)
    return await send_form(browser, body)


def problems(page: httpx.Response) -> str:
    return Html(page.text).text
