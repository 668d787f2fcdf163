"""Metrics of a running service."""

import platform
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcp_tools_proxy.wire.version import VERSION
from tests.support.builders import make_document
from tests.support.service import CONFIG_DIR, EXECUTE, READY, Service, running
from tests.support.tokens import bearer, token_settings


async def series(service: Service, name: str) -> list[tuple[dict[str, str], float]]:
    text = (await service.http.get("/metrics")).text
    families = text_string_to_metric_families(text)
    samples = [it for family in families for it in family.samples if it.name == name]
    return [(it.labels, it.value) for it in samples]


async def test_the_version_of_a_replica_is_a_metric(service: Service) -> None:
    assert await series(service, "mcp_proxy_build_info") == [
        ({"version": VERSION, "python": platform.python_version()}, 1)
    ]


async def test_only_tenants_in_the_setting_have_metrics() -> None:
    async with running(metrics_tenants="acme, globex") as service:
        for tenant_id in ("acme", "initech"):
            await service.result("list_available_tools", tenant_id=tenant_id)
        text = (await service.http.get("/metrics")).text
        assert await series(service, "mcp_proxy_tenant_calls_total") == [
            ({"tenant": "acme", "code": "OK"}, 1),
            ({"tenant": "other", "code": "OK"}, 1),
        ]
    assert "initech" not in text


async def test_a_document_is_cached_after_it_was_read() -> None:
    async with running(make_document()) as service:
        arguments = {"doc_id": "doc", "page_start": 1, "page_end": 1}
        await service.result("read_doc_pages", arguments)
        (_, misses) = (await series(service, "mcp_proxy_document_cache_misses_total"))[0]
        (_, hits) = (await series(service, "mcp_proxy_document_cache_hits_total"))[0]
        await service.result("read_doc_pages", arguments)
        assert misses > 0
        assert await series(service, "mcp_proxy_document_cache_misses_total") == [({}, misses)]
        assert (await series(service, "mcp_proxy_document_cache_hits_total"))[0][1] > hits


async def test_refused_requests_and_calls_are_counted_by_check(service: Service) -> None:
    assert await service.code("no_such_tool") == "TOOL_NOT_FOUND"
    assert (await service.http.post(EXECUTE, json={})).status_code == 422
    assert await series(service, "mcp_proxy_refusals_total") == [
        ({"check": "visibility", "code": "TOOL_NOT_FOUND"}, 1),
        ({"check": "request", "code": "INVALID_REQUEST"}, 1),
    ]


@pytest.fixture(params=['{"mcpServers": {}}', "{"], ids=["good", "broken"])
def servers_file(request: pytest.FixtureRequest) -> str:
    """Write the file of the servers; the second entry is invalid."""
    CONFIG_DIR.mkdir()
    (CONFIG_DIR / "mcp.json").write_text(request.param)
    return str(request.param)


async def test_the_checks_of_readiness_are_metrics(servers_file: str) -> None:
    async with running() as service:
        checks = (await service.get(READY))["checks"]
        shown = {
            labels["check"]: value
            for labels, value in await series(service, "mcp_proxy_readiness_ok")
        }
    assert shown == {name: check["status"] == "ok" for name, check in checks.items()}
    assert shown["config"] == (servers_file != "{")


async def test_sessions_and_their_limit_are_metrics() -> None:
    async with running(max_sessions=7) as service:
        assert await series(service, "mcp_proxy_mcp_sessions_limit") == [({}, 7)]


async def test_lost_audit_records_are_counted(tmp_path: Path) -> None:
    async with running(audit=f"file:{tmp_path / 'audit.jsonl'}") as service:
        file = service.gateway.audit.file
        assert file is not None
        file.lost = 3
        assert await series(service, "mcp_proxy_audit_records_lost_total") == [({}, 3)]


TOKEN = "a-token-of-metrics-only"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (bearer("a-token-of-metrics-onl"), 401),
        (bearer("b" * 32), 401),
        ({"Authorization": TOKEN}, 401),
        (bearer(TOKEN), 200),
    ],
)
async def test_metrics_can_require_a_token(headers: dict[str, str], status: int) -> None:
    for settings in ({}, token_settings()):
        async with running(metrics_token=TOKEN, **settings) as service:
            response = await service.http.get("/metrics", headers=headers)
            assert response.status_code == status
            assert ("mcp_proxy_build_info" in response.text) == (status == 200)
            assert (await service.http.get("/health")).status_code == 200


async def test_the_token_of_metrics_is_refused_elsewhere() -> None:
    async with running(metrics_token=TOKEN, **token_settings()) as service:
        response = await service.http.post(EXECUTE, json={}, headers=bearer(TOKEN))
        assert response.status_code == 401
