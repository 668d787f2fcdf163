"""The Dockerfile and the Compose file (the image itself is built manually)."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # no stubs; it comes with schemathesis

from tests.support.tables import named_row

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
VARIABLE = re.compile(r"\$\{[A-Z_]+:-(.+)\}")


def test_the_images_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"ARG VERSION={project['version']}\n" in DOCKERFILE


def test_the_image_has_labels_of_its_origin() -> None:
    for label in ["version", "revision", "source"]:
        with named_row(label):
            assert f'org.opencontainers.image.{label}="${{{label.upper()}}}"' in DOCKERFILE


def test_the_base_image_is_an_argument() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert set(bases) == {"${BASE_IMAGE}"}


def test_the_image_is_built_once_and_never_pulled_by_default() -> None:
    own = {name for name, it in SERVICES.items() if by_default(it["image"]) == "mcp-tools-proxy"}
    pulled = {name: by_default(it.get("pull_policy", "")) for name, it in SERVICES.items()}
    assert [name for name, it in SERVICES.items() if "build" in it] == ["gateway"]
    assert {name for name, policy in pulled.items() if policy == "never"} == own


def test_every_image_can_be_named_by_its_digest() -> None:
    """A digest replaces name and tag, so the whole name must be a variable."""
    base = SERVICES["gateway"]["build"]["args"]["BASE_IMAGE"]
    images = [base, *(it["image"] for it in SERVICES.values())]
    assert [it for it in images if VARIABLE.fullmatch(it) is None] == []
    tags = [by_default(it) for it in images]
    assert re.findall(r"^ARG BASE_IMAGE=(.+)$", DOCKERFILE, re.MULTILINE) == tags[:1]
    assert [it for it in tags if "@" in it] == []


@pytest.mark.parametrize(
    "image", ["", "python:3.12-slim", "python@sha256:12ab", "python:3.12@sha512:" + "0" * 64]
)
def test_a_release_requires_a_base_image_with_a_digest(image: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "release", f"BASE_IMAGE={image}", "RELEASE_KEY=key.pem"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "BASE_IMAGE" in done.stderr


def by_default(value: str) -> str:
    """Return the value that Compose uses if no variable is set."""
    found = VARIABLE.fullmatch(value)
    return value if found is None else found[1]


def test_only_the_gateway_reaches_redis_and_redis_requires_a_password() -> None:
    for name, variable in [
        ("redis", "MCP_PROXY_RATE_LIMIT_STORAGE_URL"),
        ("state", "MCP_PROXY_STATE_URL"),
    ]:
        with named_row(name, variable):
            redis = SERVICES[name]
            members = {
                name for name, it in SERVICES.items() if {*it.get("networks", [])} & {"limits"}
            }
            assert (redis["networks"], members) == (["limits"], {"redis", "state", "gateway"})
            assert COMPOSE["networks"]["limits"] == {"internal": True}
            assert '--requirepass "$$REDISCLI_AUTH"' in " ".join(redis["command"])
            url = SERVICES["gateway"]["environment"][variable]
            assert f"redis://:{redis['environment']['REDISCLI_AUTH']}@{name}" in url


def test_the_redis_of_outcomes_evicts_nothing_and_writes_to_disk() -> None:
    command = " ".join(SERVICES["state"]["command"])
    assert "--maxmemory-policy noeviction" in command
    assert "--appendonly yes" in command
    assert "state:/data" in SERVICES["state"]["volumes"]


def test_the_gateway_knows_its_host_names() -> None:
    hosts = SERVICES["gateway"]["environment"]["MCP_PROXY_ALLOWED_HOSTS"]
    assert "localhost" in hosts
    assert "*" not in hosts


def test_an_extra_of_the_image_is_locked_to_the_tested_versions() -> None:
    for extra in ["ocr", "formats"]:
        with named_row(extra):
            assert f"requirements/{extra}.lock" in DOCKERFILE
            pins = re.compile(r"^[\w.-]+==.*?(?= \\$)", re.MULTILINE)
            found, tested = (
                set(pins.findall((ROOT / f"requirements/{name}.lock").read_text()))
                for name in (extra, "dev")
            )
            assert found
            assert found <= tested


def test_an_image_without_extras_cannot_read_scans() -> None:
    assert re.findall(r"^ARG (?:EXTRAS|OCR_LANGUAGES)=(.*)$", DOCKERFILE, re.MULTILINE) == [""] * 3
    assert "MCP_PROXY_OCR_LANGUAGES=${OCR_LANGUAGES}" in DOCKERFILE
