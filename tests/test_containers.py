"""What the Dockerfile and the Compose file promise (the image itself is built by hand)."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # no stubs; it comes with schemathesis
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]


def test_the_images_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"ARG VERSION={project['version']}\n" in DOCKERFILE


@pytest.mark.parametrize("label", ["version", "revision", "source"])
def test_the_image_says_what_it_is_of(label: str) -> None:
    assert f'org.opencontainers.image.{label}="${{{label.upper()}}}"' in DOCKERFILE


def test_the_base_image_is_an_argument() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${BASE_IMAGE}"}


def test_the_image_is_built_once_and_never_pulled() -> None:
    own = {name for name, it in SERVICES.items() if it["image"] == "mcp-tools-proxy"}
    assert [name for name, it in SERVICES.items() if "build" in it] == ["gateway"]
    assert {name for name, it in SERVICES.items() if it.get("pull_policy") == "never"} == own


@pytest.mark.parametrize(
    ("name", "variable"),
    [("redis", "MCP_PROXY_RATE_LIMIT_STORAGE_URL"), ("state", "MCP_PROXY_STATE_URL")],
)
def test_no_mcp_server_reaches_redis_which_has_a_password(name: str, variable: str) -> None:
    redis = SERVICES[name]
    members = {name for name, it in SERVICES.items() if {*it.get("networks", [])} & {"limits"}}
    assert (redis["networks"], members) == (["limits"], {"redis", "state", "gateway"})
    assert COMPOSE["networks"]["limits"] == {"internal": True}
    assert '--requirepass "$$REDISCLI_AUTH"' in " ".join(redis["command"])
    url = SERVICES["gateway"]["environment"][variable]
    assert f"redis://:{redis['environment']['REDISCLI_AUTH']}@{name}" in url


def test_the_redis_of_outcomes_never_drops_one_and_writes_them_to_disk() -> None:
    command = " ".join(SERVICES["state"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command
    assert "state:/data" in SERVICES["state"]["volumes"]


def test_the_gateway_knows_its_host_names() -> None:
    hosts = SERVICES["gateway"]["environment"]["MCP_PROXY_ALLOWED_HOSTS"]
    assert "localhost" in hosts
    assert "*" not in hosts


@pytest.mark.parametrize("extra", ["ocr", "formats"])
def test_an_extra_of_the_image_is_locked_with_the_versions_that_are_tested(extra: str) -> None:
    assert f"requirements/{extra}.lock" in DOCKERFILE
    pins = re.compile(r"^[\w.-]+==.*?(?= \\$)", re.MULTILINE)
    found, tested = (
        set(pins.findall((ROOT / f"requirements/{name}.lock").read_text()))
        for name in (extra, "dev")
    )
    assert found
    assert found <= tested


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements/*.lock")), ids=lambda it: it.stem)
@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_no_lock_has_an_old_onnxruntime(lock: Path, system: str) -> None:
    """Magika's limit for Windows held the image at 1.20.1."""
    pins = re.findall(r"^onnxruntime\S*==.*?(?= \\$)", lock.read_text(), re.MULTILINE)
    found = [it for it in map(Requirement, pins) if installs_on(it, system)]
    assert [it for it in found if Version(next(iter(it.specifier)).version) < Version("1.24")] == []
    assert [it.name for it in found] == ["onnxruntime"] * (lock.stem in ("formats", "dev"))


def installs_on(it: Requirement, system: str) -> bool:
    return it.marker is None or it.marker.evaluate({"sys_platform": system})


def test_an_image_without_extras_reads_no_scan() -> None:
    assert re.findall(r"^ARG (?:EXTRAS|OCR_LANGUAGES)=(.*)$", DOCKERFILE, re.MULTILINE) == [""] * 3
    assert "MCP_PROXY_OCR_LANGUAGES=${OCR_LANGUAGES}" in DOCKERFILE
