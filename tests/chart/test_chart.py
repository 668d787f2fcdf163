"""The Helm chart: its output is valid, secure, and compatible with the gateway."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import helm_python
import pytest
import yaml  # type: ignore[import-untyped] # untyped

from deploy.render import CHART, CHART_SETS, MANIFESTS, NAME, files, plain_settings, render
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from tests.chart.values import REFUSED, VALUES
from tests.support.configuration import Config
from tests.support.program_launch import ROOT
from tests.support.service import running
from tests.support.tokens import MODES

Json = dict[str, Any]

VERSIONS = ("1.30", "1.37")
"""The oldest supported Kubernetes, and the newest one with schemas here."""

COMPOSE: Json = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SETTINGS = {
    str(field.validation_alias or variable(name)) for name, field in Settings.model_fields.items()
}
PODS = ("Deployment", "Job")
OWN_SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


@cache
def described_paths() -> frozenset[str]:
    """Return the paths of the gateway."""
    return frozenset(create_app(Settings()).openapi()["paths"])


@cache
def objects(values: str) -> tuple[Json, ...]:
    """Return the rendered objects of a set of values."""
    texts = [
        text for path, text in render(VALUES[values], name=NAME).items() if "NOTES" not in path
    ]
    return tuple(it for text in texts for it in yaml.safe_load_all(text) if it)


def one(values: str, kind: str) -> Json:
    (found,) = [it for it in objects(values) if it["kind"] == kind]
    return found


def pods(values: str) -> Iterator[Json]:
    for it in objects(values):
        if it["kind"] in PODS:
            yield it["spec"]["template"]


def gateway(values: str) -> Json:
    (container,) = one(values, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def environment(values: str) -> dict[str, str | None]:
    """Return the gateway's variables; None is from a Secret."""
    return {it["name"]: it.get("value") for it in gateway(values)["env"]}


def notes(values: Mapping[str, Any]) -> str:
    return render(values, name=NAME)[f"{NAME}/templates/NOTES.txt"]


@pytest.mark.parametrize("values", VALUES)
def test_every_object_is_valid(values: str) -> None:
    # importing takes a second of CPU in each worker
    import kubernetes_validate  # type: ignore[import-untyped] # noqa: PLC0415 # untyped

    known = [it for it in objects(values) if it["kind"] != "ServiceMonitor"]
    for it in known:
        for version in VERSIONS:
            kubernetes_validate.validate(it, version, strict=True)
    assert "Deployment" in {it["kind"] for it in known}


def test_the_service_monitor_finds_the_port_of_the_service() -> None:
    values = "ingress, autoscaling and ServiceMonitor"
    monitor, service = one(values, "ServiceMonitor"), one(values, "Service")
    assert monitor["apiVersion"] == "monitoring.coreos.com/v1"
    assert set(monitor["spec"]) == {"selector", "endpoints"}
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {
        "port": service["spec"]["ports"][0]["name"],
        "path": "/metrics",
        "interval": "30s",
    }


def test_helm_lint_finds_nothing() -> None:
    report = helm_python.lint(CHART, strict=True)
    assert (report["errors"], [it for it in report["messages"] if it["severity"] > 1]) == ([], [])


def test_files_generated_from_the_chart_and_the_settings_are_up_to_date() -> None:
    written = files()
    stale = [path.name for path, text in written.items() if path.read_text("utf-8") != text]
    left = [path.name for path in MANIFESTS.glob("*.yaml") if path not in written]
    assert (stale, left) == ([], []), "make chart"


def test_the_chart_version_equals_the_image_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    image = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    assert f"ARG VERSION={chart['appVersion']}\n" in image
    assert chart["version"] == chart["appVersion"]


@pytest.mark.parametrize("values", VALUES)
def test_every_variable_is_a_setting_or_a_documented_exception(values: str) -> None:
    own = {it["name"] for it in VALUES[values].get("extraEnv", [])}
    assert set(environment(values)) - own <= SETTINGS
    for pod in pods(values):
        for container in pod["spec"]["containers"]:
            names = [it["name"] for it in container["env"]]
            assert len(names) == len(set(names))


def test_the_service_monitor_sends_the_required_metrics_token() -> None:
    values = "metrics with a token"
    (endpoint,) = one(values, "ServiceMonitor")["spec"]["endpoints"]
    secret = {"name": "gateway-secrets", "key": "metrics-token"}
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": secret}
    assert "MCP_PROXY_METRICS_TOKEN" in environment(values)


@pytest.mark.parametrize(
    ("values", "from_secrets"),
    [
        (
            "postgres and redis",
            {
                "MCP_PROXY_ADMIN_TOKEN", "MCP_PROXY_DOCUMENTS_URL", "MCP_PROXY_SESSION_KEYS",
                "MCP_PROXY_RATE_LIMIT_STORAGE_URL", "MCP_PROXY_STATE_KEY", "MCP_PROXY_STATE_URL",
            },
        ),
        (
            "logins to servers",
            {
                "MCP_PROXY_CREDENTIALS_KEY", "MCP_PROXY_DOCUMENTS_URL", "MCP_PROXY_SESSION_KEYS",
                "MCP_PROXY_RATE_LIMIT_STORAGE_URL", "MCP_PROXY_SIGNIN_CLIENT_SECRET",
                "MCP_PROXY_STATE_KEY", "MCP_PROXY_STATE_URL",
            },
        ),
    ],
)  # fmt: skip
def test_no_secret_is_a_plain_value(values: str, from_secrets: set[str]) -> None:
    """Each variable with a secret is read from a Secret, and the chart creates none."""
    assert {name for name, value in environment(values).items() if value is None} == from_secrets
    made = [it["kind"] for each in VALUES for it in objects(each)]
    assert "Secret" not in made


def test_every_secret_setting_is_among_the_secrets_of_the_values() -> None:
    helpers = (CHART / "templates/_helpers.tpl").read_text(encoding="utf-8")
    of_chart = set(re.findall(r"^\w+: (MCP_PROXY_\w+)$", helpers, re.MULTILINE))
    elsewhere = {"MCP_PROXY_DOCUMENTS_OWNER_URL"}  # only of the Job
    secrets = SETTINGS - set(plain_settings()) - {variable(it) for it in CHART_SETS}
    assert of_chart == secrets - elsewhere


def test_a_secret_is_read_with_the_name_and_key_in_the_values() -> None:
    values = "postgres and redis"
    (redis,) = [
        it for it in gateway(values)["env"] if it["name"] == "MCP_PROXY_RATE_LIMIT_STORAGE_URL"
    ]
    assert redis["valueFrom"] == {"secretKeyRef": {"name": "redis", "key": "url"}}


@pytest.mark.parametrize("values", VALUES)
def test_every_container_is_as_hardened_as_in_compose(values: str) -> None:
    compose = COMPOSE["services"]["gateway"]
    uid, gid = map(int, compose["user"].split(":"))
    for pod in pods(values):
        spec = pod["spec"]
        assert spec["securityContext"].items() >= {
            "runAsNonRoot": True, "runAsUser": uid, "runAsGroup": gid,
            "seccompProfile": {"type": "RuntimeDefault"},
        }.items()  # fmt: skip
        assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False)
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": compose["read_only"],
                "capabilities": {"drop": compose["cap_drop"]},
                "allowPrivilegeEscalation": False,
            }
            assert container["resources"]["limits"]["memory"] == "512Mi"
    assert compose["mem_limit"] == "${GATEWAY_MEMORY:-512m}"


@pytest.mark.parametrize("values", VALUES)
def test_writable_folders_of_compose_are_empty_dirs(values: str) -> None:
    spec = one(values, "Deployment")["spec"]["template"]["spec"]
    volumes = {it["name"]: it for it in spec["volumes"]}
    mounts = {it["mountPath"]: it for it in gateway(values)["volumeMounts"]}
    writable = {path for path, it in mounts.items() if "emptyDir" in volumes[it["name"]]}
    assert writable == {"/data/scratch", "/tmp"}  # noqa: S108 - paths in the pod
    assert mounts["/data/config"]["readOnly"] is True
    assert {it["name"] for it in mounts.values()} == set(volumes)
    assert not [path for path, it in mounts.items() if "subPath" in it]


@pytest.mark.parametrize("values", VALUES)
def test_the_probes_use_existing_routes(values: str) -> None:
    container = gateway(values)
    probes = {it: container[f"{it}Probe"]["httpGet"] for it in ("startup", "liveness", "readiness")}
    assert {it["path"] for it in probes.values()} <= described_paths()
    assert probes["readiness"]["path"] == "/health/ready"
    assert {it["port"] for it in probes.values()} == {container["ports"][0]["name"]}
    assert environment(values)["MCP_PROXY_PORT"] == str(container["ports"][0]["containerPort"])


@pytest.mark.parametrize("values", VALUES)
def test_every_selector_matches_only_the_pods_of_the_gateway(values: str) -> None:
    deployment = one(values, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    selectors = [deployment["selector"]["matchLabels"], one(values, "Service")["spec"]["selector"]]
    for it in objects(values):
        if it["kind"] == "PodDisruptionBudget":
            selectors.append(it["spec"]["selector"]["matchLabels"])
        if it["kind"] == "NetworkPolicy":
            selectors.append(it["spec"]["podSelector"]["matchLabels"])
    spreads = deployment["template"]["spec"].get("topologySpreadConstraints", [])
    selectors += [it["labelSelector"]["matchLabels"] for it in spreads]
    others = [
        it["spec"]["template"]["metadata"]["labels"]
        for it in objects(values)
        if it["kind"] == "Job"
    ]
    assert all(it.items() <= labels.items() for it in selectors)
    assert not [it for it in selectors for other in others if it.items() <= other.items()]


@pytest.mark.parametrize(
    ("values", "grace_s"), [("default", 10), ("jwt", 31), ("one replica, bare", 10)]
)
def test_a_pod_has_enough_time_to_stop(values: str, grace_s: int) -> None:
    spec = one(values, "Deployment")["spec"]["template"]["spec"]
    pause_s = gateway(values)["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = int(environment(values)["MCP_PROXY_SHUTDOWN_DRAIN_S"] or "")
    assert spec["terminationGracePeriodSeconds"] == pause_s + grace_s + drain_s + 10


def test_no_pod_is_stopped_before_its_successor_is_ready() -> None:
    spec = one("default", "Deployment")["spec"]
    rolling = {"maxUnavailable": 0, "maxSurge": 1}
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (2, rolling)


def test_only_the_autoscaler_sets_the_number_of_replicas() -> None:
    values = "ingress, autoscaling and ServiceMonitor"
    scaler = one(values, "HorizontalPodAutoscaler")["spec"]
    assert "replicas" not in one(values, "Deployment")["spec"]
    assert scaler["scaleTargetRef"]["name"] == one(values, "Deployment")["metadata"]["name"]


def test_the_ingress_forwards_neither_metrics_nor_readiness() -> None:
    values = "ingress, autoscaling and ServiceMonitor"
    (rule,) = one(values, "Ingress")["spec"]["rules"]
    paths = [it["path"] for it in rule["http"]["paths"]]
    assert paths == ["/mcp", "/internal", "/oauth", "/.well-known/oauth-protected-resource"]
    passed_on = tuple(f"{it}/" for it in paths)
    hidden = {path for path in described_paths() if not path.startswith(passed_on)}
    assert hidden >= {"/metrics", "/health/ready"}
    assert "gateway.example.com" in (environment(values)["MCP_PROXY_ALLOWED_HOSTS"] or "").split(
        ","
    )


@pytest.mark.parametrize(
    ("values", "ports"),
    [
        ("default", [53, 53]),
        ("postgres and redis", [53, 53, 6380, 5432]),
        ("jwt", [53, 53, 6379, 8443, 8084]),
        ("logins to servers", [53, 53, 6379, 5432, 8444, 443, 9443]),
    ],
)
def test_the_gateway_can_connect_only_to_the_ports_in_the_values(
    values: str, ports: list[int]
) -> None:
    policy = one(values, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == ports


@pytest.mark.parametrize("values", ["documents on a volume, and a tokens file", "jwt"])
def test_only_pods_of_the_namespace_can_connect_by_default(values: str) -> None:
    (rule,) = one(values, "NetworkPolicy")["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {}}]


def test_no_pod_can_connect_without_authentication_by_default() -> None:
    policy = one("default", "NetworkPolicy")["spec"]
    # an empty "from" would allow all pods
    assert (policy["policyTypes"][0], policy["ingress"]) == ("Ingress", [])
    assert "no pod can connect" in notes({})
    assert "every pod in the cluster can connect" in notes({"networkPolicy": {"enabled": False}})
    by_name: Json = {"networkPolicy": {"ingressFrom": [{"podSelector": {}}]}}
    text = render(by_name, name=NAME)[f"{NAME}/templates/networkpolicy.yaml"]
    (rule,) = yaml.safe_load(text)["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {}}]


@pytest.mark.parametrize("values", VALUES)
def test_the_gateway_starts_with_these_settings(
    values: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {
        "MCP_PROXY_RATE_LIMIT_STORAGE_URL": "redis://redis", "MCP_PROXY_STATE_URL": "redis://state",
        "MCP_PROXY_DOCUMENTS_URL": "postgresql://gateway@db/documents",
    }  # fmt: skip
    for name, value in environment(values).items():
        monkeypatch.setenv(name, value if value is not None else secrets.get(name, OWN_SECRET))
    settings = Settings()
    assert settings.port == 8082
    assert settings.warnings == ()


def test_the_configuration_files_are_mounted_unchanged() -> None:
    data = one("jwt", "ConfigMap")["data"]
    given = VALUES["jwt"]["config"]["files"]
    assert json.loads(data["mcp.json"]) == given["mcp.json"]
    assert data["preset_all.json"] == given["preset_all.json"]
    assert set(data) == set(given)


def test_an_external_configuration_replaces_that_of_the_chart() -> None:
    values = "documents on a volume, and a tokens file"
    volumes = one(values, "Deployment")["spec"]["template"]["spec"]["volumes"]
    (config,) = [it for it in volumes if it["name"] == "config"]
    assert config["configMap"]["name"] == "mine"
    assert "ConfigMap" not in {it["kind"] for it in objects(values)}


@pytest.mark.parametrize("why", REFUSED)
def test_values_without_the_intended_effect_are_refused(why: str) -> None:
    values, named = REFUSED[why]
    with pytest.raises(helm_python.HelmError, match=re.escape(named)):
        render(values, name=NAME)


def test_the_notes_of_a_trial_list_the_settings_for_production() -> None:
    text = notes({})
    assert "FOR A TRIAL ONLY" in text
    assert re.findall(r"secrets\.\w+\.name", text) == [
        "secrets.tokensFile.name", "secrets.redisUrl.name", "secrets.sessionKeys.name",
        "secrets.documentsUrl.name", "secrets.adminToken.name",
    ]  # fmt: skip


def test_the_notes_of_a_complete_installation_omit_advice() -> None:
    values = {
        "documents": {"existingClaim": "documents"},
        "secrets": {
            it: {"name": "s"}
            for it in ("redisUrl", "sessionKeys", "stateKey", "tokensFile", "adminToken")
        },
    }
    assert notes(values).rstrip().endswith("mcp-tools-proxy check")


TRIED: dict[str, tuple[Mapping[str, Any], str | None]] = {
    "default": ({}, None),
    "agents": ({"config": {"files": {"agents.json": {"agents": [{"name": "a & b"}]}}}}, None),
    "agents as text": (
        {"config": {"files": {"agents.json": '{"agents": [{"name": "reader"}]}'}}},
        None,
    ),
    "no agent is required": (
        {
            "settings": {"MCP_PROXY_REQUIRE_AGENT": False},
            "config": {"files": {"agents.json": {"agents": [{"name": "reader"}]}}},
        },
        None,
    ),
    "an agent is required": ({"settings": {"MCP_PROXY_REQUIRE_AGENT": True}}, None),
    "hosts of its own": ({"settings": {"MCP_PROXY_ALLOWED_HOSTS": "gateway.example"}}, None),
    "tokens": (VALUES["documents on a volume, and a tokens file"], "token"),
    "jwt": (VALUES["jwt"], "jwt"),
}
"""Values and the authentication of callers."""


@pytest.mark.parametrize("case", TRIED)
async def test_the_notes_print_a_working_request(case: str) -> None:
    values, mode = TRIED[case]
    settings, mint = MODES[mode] if mode else (dict, None)
    (command,) = [it.strip() for it in notes(values).splitlines() if it.strip().startswith("curl")]
    _, _, address, *options = shlex.split(command)
    headers = dict(it.split(": ", 1) for it in options[1::2])
    agents = (values.get("config", {}).get("files") or {}).get("agents.json")
    profiles = json.loads(agents) if isinstance(agents, str) else agents or {"agents": []}
    if "AGENT" in address:
        profiles = {"agents": [{"name": "AGENT"}]}
    env = yaml.safe_load_all(render(values, name=NAME)[f"{NAME}/templates/deployment.yaml"])
    (container,) = next(iter(env))["spec"]["template"]["spec"]["containers"]
    given = {it["name"]: it.get("value") for it in container["env"]}
    async with running(
        config=Config(agents=profiles["agents"]),
        allowed_hosts=given["MCP_PROXY_ALLOWED_HOSTS"],
        require_agent=given.get("MCP_PROXY_REQUIRE_AGENT"),
        **settings(),
    ) as service:
        if mint is not None:
            token = mint()
            if service.gateway.tokens is not None:
                await service.gateway.tokens.load()
            headers["Authorization"] = headers["Authorization"].replace("$TOKEN", token)
        headers.setdefault("Host", "localhost:8082")
        answer = await service.http.get(address.removeprefix("localhost:8082"), headers=headers)
    assert answer.status_code == 200, answer.text
    assert "read_doc_pages" in [tool["name"] for tool in answer.json()["tools"]]
