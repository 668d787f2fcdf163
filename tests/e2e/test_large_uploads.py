"""Large uploads to the started program: how much memory they take together."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.program import Program, started
from tests.support.tokens import bearer

pytestmark = [pytest.mark.e2e]

ADMIN = "an-admin-token-of-16"
PAGE = 'Шлюз посылает сертификат: "клиент" его проверяет.\n' * 60
PAGES = 4_000
UPLOADS = 4


def peak_bytes(program: Program) -> int:
    """Return the most memory that the program had resident."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def put(program: Program, doc_id: str) -> tuple[int, int]:
    """Upload a document; return the size of the upload and the status."""
    document = {"tenant_id": "acme", "doc_id": doc_id, "title": "Large", "pages": [PAGE] * PAGES}
    content = json.dumps(document, ensure_ascii=False).encode()
    answer = program.http.put(
        "/internal/documents/content",
        params={"tenant_id": "acme", "doc_id": doc_id},
        content=content,
        headers={"Content-Type": "application/json", "If-None-Match": "*"} | bearer(ADMIN),
    )
    return len(content), answer.status_code


def test_large_uploads_take_the_memory_of_one(tmp_path: Path) -> None:
    environment = {"MCP_PROXY_ADMIN_TOKEN": ADMIN, "TMPDIR": str(tmp_path)}
    with started(tmp_path, environment) as program, ThreadPoolExecutor(UPLOADS) as threads:
        before = peak_bytes(program)
        results = list(threads.map(lambda n: put(program, f"d{n}"), range(UPLOADS)))
        grown = peak_bytes(program) - before
    size = results[0][0]
    assert results == [(size, 201)] * UPLOADS
    assert size > 20_000_000
    assert grown < 4 * size  # four at once took 28 times as much
