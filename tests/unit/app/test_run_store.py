from typing import Any

import pytest

from mcp_tools_proxy.app.optional import build_run_store
from mcp_tools_proxy.app.workers import settings_of_workers
from mcp_tools_proxy.settings.settings import Settings
from tests.support.tables import each_row

KEY: dict[str, Any] = {"state_key": "0123456789abcdef0123456789abcdef"}
STATE = {"state_url": "redis://state.internal:6379/0"}
BUDGETS = {"rate_limit_storage_url": "redis://budgets.internal:6379/0"}
RUNS = {"runs_url": "redis://runs.internal:6379/2"}
POSTGRES = {"runs_url": "postgresql://gateway:pw-of-the-gateway@db.internal/documents"}


@each_row(
    ("values", "expected"),
    [
        ({}, "<MemoryRunStore 0 runs, 0 marks>"),
        (KEY, "<MemoryRunStore 0 runs, 0 marks>"),
        (KEY | BUDGETS, "<RedisRunStore redis://budgets.internal:6379/0"),
        (KEY | BUDGETS | STATE, "<RedisRunStore redis://state.internal:6379/0"),
        (KEY | STATE | RUNS, "<RedisRunStore redis://runs.internal:6379/2"),
        (KEY | STATE | POSTGRES, "<PostgresRunStore the database has not answered yet"),
    ],
)
async def test_settings_select_the_store_of_runs(values: dict[str, Any], expected: str) -> None:
    store = build_run_store(Settings(**values))
    assert repr(store).startswith(expected)
    await store.close()


@each_row(
    ("values", "status"),
    [(BUDGETS, "ok"), (STATE, "degraded"), (RUNS, "degraded"), (POSTGRES, "degraded")],
)
def test_a_shared_store_needs_a_key(values: dict[str, Any], status: str) -> None:
    readiness = build_run_store(Settings(**values)).readiness()
    assert (readiness["status"], readiness["store"]) == (status, "none")
    assert "MCP_PROXY_STATE_KEY is not set" in str(readiness["problem"])


@each_row("values", [{}, {"documents_url": "postgresql://gateway:pw-of-the-gateway@db/documents"}])
async def test_workers_share_the_runs_of_a_private_redis(values: dict[str, Any]) -> None:
    shared = settings_of_workers(Settings(**values), 2, "unix:///run/private.sock?db=0")
    store = build_run_store(shared)
    assert repr(store).startswith("<RedisRunStore unix:///run/private.sock?db=0")
    await store.close()


def test_an_unusable_url_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(ValueError, match="MCP_PROXY_RUNS_URL: has no host"):
        build_run_store(Settings.model_validate({"runs_url": "redis:///0"} | KEY))
