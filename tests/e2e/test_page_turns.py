"""Slow pages of two tenants do not delay the images of a third."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fpdf import FPDF

from tests.support.bounds import BOUND_S
from tests.support.program import Program, started
from tests.support.tokens import bearer
from tests.support.worker_processes import stop_new_worker, workers

pytestmark = [pytest.mark.e2e]

ADMIN = "an-admin-token-of-16"
SLOW = ("acme", "globex")


def pdf_of(lines: int) -> bytes:
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    pdf.add_page()
    pdf.cell(text="A drawing.")
    for number in range(lines):
        pdf.line(0, number % 297, 210, 297 - number % 293)
    return bytes(pdf.output())


def upload(program: Program, tenant_id: str, content: bytes) -> None:
    answer = program.http.put(
        "/internal/documents/content",
        params={"tenant_id": tenant_id, "doc_id": "d"},
        content=content,
        headers={"Content-Type": "application/pdf", "If-None-Match": "*"} | bearer(ADMIN),
        timeout=BOUND_S,
    )
    assert answer.status_code == 201, answer.text


def view(program: Program, tenant_id: str) -> dict[str, Any]:
    user = {"user_id": "ann", "tenant_id": tenant_id}
    call = {"tool_name": "view_doc_page", "arguments": {"doc_id": "d", "page": 1}, "user": user}
    answer = program.http.post("/internal/mcp/execute", json=call, timeout=BOUND_S)
    envelope: dict[str, Any] = answer.json()
    return envelope


def test_slow_pages_of_two_tenants_do_not_block_a_third(tmp_path: Path) -> None:
    environment = {"MCP_PROXY_ADMIN_TOKEN": ADMIN, "MCP_PROXY_DOCUMENTS_KEEP_ORIGINALS": "true"}
    with started(tmp_path, environment) as program, ThreadPoolExecutor() as threads:
        for tenant_id in SLOW:
            upload(program, tenant_id, pdf_of(30_000))
        upload(program, "initech", pdf_of(1))
        slow = []
        for tenant_id in SLOW:
            before = workers(program)
            slow.append(threads.submit(view, program, tenant_id))
            stop_new_worker(program, before)
        assert view(program, "initech")["status"] == "ok"
        errors = [it.result()["error"] for it in slow]
    assert {error["code"] for error in errors} == {"PAGE_IMAGE_UNAVAILABLE"}
    assert all(error["retryable"] for error in errors)
    assert any("while other tenants waited" in error["message"] for error in errors)
