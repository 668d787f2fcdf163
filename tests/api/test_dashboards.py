"""Dashboard and alerts use only existing metrics, and Grafana can load them."""

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import combinations
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]  # untyped
from prometheus_client.parser import text_string_to_metric_families

from mcp_tools_proxy.telemetry.metrics import Metrics
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.promql import Query, labels_of_legend, parse_query
from tests.support.service import Service, eventually, running
from tests.support.source_files import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/mcp-tools-proxy.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PRESET = make_preset(tools=[("s1", "echo")])
OF_PROMETHEUS = frozenset({"job", "instance"})
"""Labels that the scrape adds to every series; ``up`` comes from the scrape too."""


def queries() -> Iterator[tuple[Query, frozenset[str]]]:
    """Yield each query of dashboard and rules with the labels in its legend."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield parse_query(target["expr"]), labels_of_legend(target["legendFormat"])
    for rule in RULES:
        texts = rule.get("annotations", {}).values()
        yield parse_query(rule["expr"]), frozenset().union(*map(labels_of_legend, texts))


def refuse(_request: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


ENTRY = {"isolation": "tenant", "maxSessions": 1, "guards": {"hiddenCharacters": "flag"}}


@asynccontextmanager
async def busy_service() -> AsyncIterator[Service]:
    """Start a gateway with a server and a backend, and call it until each metric has a series."""
    async with (
        running_raw(only=("echo",)) as server,
        running(
            config=Config(
                servers={"s1": {**server.entry, **ENTRY}},
                presets=[PRESET],
            ),
            retrieval_transport=httpx.MockTransport(refuse),
            retrieval_window_url="http://retrieval/window",
            embeddings_url="http://127.0.0.1:9/v1/embeddings",
            embeddings_model="none",
            remote_url="ws://127.0.0.1:9/ws",
            remote_token="token",
            rate_limit_tenant_calls=5,
            rate_limit_window_s=3600,
        ) as service,
    ):
        await service.result("s1:echo", {"text": "x"}, idempotency_key="once")
        # ends the session and triggers a guard
        await service.result("s1:echo", {"text": "x\u200b"}, tenant_id="tenant_2")
        run = {"id": "r", "read_only": True}
        denied = await service.code("s1:echo", {"text": "x"}, tenant_id="tenant_2", run=run)
        assert denied == "POLICY_DENIED"
        anchor = {"doc_id": "doc_1", "anchor_chunk_id": "c1", "radius": 1}
        assert await service.code("read_chunk_window", anchor) == "RETRIEVAL_UNAVAILABLE"
        await service.execute("no_such_tool")
        await service.http.post("/internal/mcp/execute", json={})
        for _ in range(6):
            await service.execute("list_available_tools")

        async def is_unreachable() -> bool:
            return "remote_link_losses_total{" in (await service.http.get("/metrics")).text

        await eventually(is_unreachable)
        yield service


async def series_of(service: Service) -> dict[str, set[str]]:
    text = (await service.http.get("/metrics")).text
    shown: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            shown.setdefault(sample.name, set()).update(sample.labels, OF_PROMETHEUS)
    return shown


def labels_of_recorded() -> dict[str, set[str]]:
    """Return the labels of the series that a rule records: those in its name."""
    return {name: {*name.split(":")[0].split("_")} for name in RECORDED}


async def test_every_metric_and_label_in_dashboard_and_rules_exists() -> None:
    async with busy_service() as service:
        shown = await series_of(service)
    known = shown | labels_of_recorded() | {"up": {*OF_PROMETHEUS}}
    named = list(queries())
    assert len(named) > 80
    assert [query for query, _ in named if not query.metrics] == []
    assert {name for query, _ in named for name in query.metrics} - known.keys() == set()
    unknown = [
        (name, labels - known[name]) for query, _ in named for name, labels in query.selected
    ]
    assert [it for it in unknown if it[1]] == []
    for query, legend in named:
        of_metrics = set().union(*(known[name] for name in query.metrics))
        assert (query.grouped | legend) <= of_metrics, query


def test_every_gateway_metric_is_on_the_dashboard() -> None:
    ours = re.findall(r"^# TYPE (mcp_proxy_\w+)", Metrics().exposition().decode(), re.MULTILINE)
    on_it = {
        name
        for panel in PANELS
        for it in panel["targets"]
        for name in parse_query(it["expr"]).metrics
    }
    assert len(ours) > 40
    assert {*ours} - {name.removesuffix("_bucket") for name in on_it} == set()


def test_every_panel_queries_the_selected_data_source_and_replicas() -> None:
    chosen = 'job=~"$job", instance=~"$instance"'
    targets = [it for panel in PANELS for it in panel["targets"]]
    assert [it["expr"] for it in targets if chosen not in it["expr"]] == []
    sources = {it["datasource"]["uid"] for it in [*PANELS, *targets]}
    variables = [it["name"] for it in DASHBOARD["templating"]["list"]]
    assert (sources, variables) == ({"${datasource}"}, ["datasource", "job", "instance"])


def test_grafana_can_load_the_dashboard() -> None:
    ids = Counter(panel["id"] for panel in DASHBOARD["panels"])
    references = [
        Counter(target["refId"] for target in panel["targets"]).most_common(1)[0][1]
        for panel in PANELS
    ]
    assert (DASHBOARD["schemaVersion"] >= 36, DASHBOARD["id"], DASHBOARD["uid"]) == (
        True,
        None,
        "mcp-tools-proxy",
    )
    assert ({*ids.values()}, {*references}) == ({1}, {1})
    assert [panel["title"] for panel in DASHBOARD["panels"] if not panel["title"]] == []


def test_panels_do_not_overlap() -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in DASHBOARD["panels"]]
    assert [title for title, at in places if at["x"] + at["w"] > 24 or at["h"] < 1] == []

    def overlap(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
        return (
            a["x"] < b["x"] + b["w"]
            and b["x"] < a["x"] + a["w"]
            and a["y"] < b["y"] + b["h"]
            and b["y"] < a["y"] + a["h"]
        )

    assert [(s, t) for (s, a), (t, b) in combinations(places, 2) if overlap(a, b)] == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_an_alert_has_a_summary_and_a_link_to_the_documentation(alert: Mapping[str, Any]) -> None:
    texts, name = alert["annotations"], alert["alert"]
    page, _, anchor = texts["runbook"].partition("#")
    assert (alert["labels"]["severity"] in {"critical", "warning"}, anchor) == (True, name)
    assert "" not in (texts["summary"], texts["description"])
    row = f'| <a id="{name}"></a>`{name}` | {alert["labels"]["severity"]} | {texts["summary"]} |'
    assert row in (ROOT / page).read_text()


def test_every_alert_has_tests_for_firing_and_for_staying_silent() -> None:
    tests = yaml.safe_load((ROOT / "deploy/prometheus/tests.yaml").read_text())["tests"]
    shown = Counter(
        (case["alertname"], bool(case["exp_alerts"]))
        for test in tests
        for case in test.get("alert_rule_test", ())
    )
    assert {*shown} == {(rule["alert"], fires) for rule in ALERTS for fires in (True, False)}
