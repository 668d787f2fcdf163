"""Docker Compose's interpretation of its files and of ``.env`` in the project's root.

Without ``docker compose`` only the files themselves are compared.
"""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # no stubs; it comes with schemathesis

ROOT = Path(__file__).parent.parent
COMMANDS: dict[str, list[str]] = {"root": [], "docker": ["-f", "docker/compose.yaml"]}
OWN = {
    "MCP_PROXY_STATE_KEY": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "REDIS_PASSWORD": "own-redis-password",
    "MCP_PROXY_ALLOWED_HOSTS": "localhost,gateway.example",
    "MCP_PROXY_DOCUMENTS_URL": "postgresql://gateway:own-password@postgres:5432/documents",
    "MCP_PROXY_RETRIEVAL_TOKEN": "own-retrieval-token",
    "GATEWAY_ADDRESS": "127.0.0.2",
    "MCP_PROXY_PORT": "9082",
    "MCP_PROXY_CONSOLE": "true",
}


def test_the_file_for_the_old_command_matches_that_of_the_root() -> None:
    file = yaml.safe_load((ROOT / "docker/compose.yaml").read_text(encoding="utf-8"))
    assert file == {
        "name": "mcp-tools-proxy",
        "include": [{"path": "../compose.yaml", "project_directory": ".."}],
    }


def test_the_file_of_the_root_uses_dot_env_if_it_exists() -> None:
    file = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    assert file["services"]["gateway"]["env_file"] == [{"path": ".env", "required": False}]


@cache
def has_compose() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    done = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Copy the files that Compose reads."""
    if not has_compose():
        pytest.skip("there is no `docker compose`")
    shutil.copy(ROOT / "compose.yaml", tmp_path)
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    return tmp_path


def configured(
    project: Path, command: str, own: dict[str, str] | None = None, **shell: str
) -> dict[str, Any]:
    """Return the configuration that Compose starts, with ``own`` in .env; None removes the file."""
    if own is not None:
        text = "".join(f"{name}={value}\n" for name, value in own.items())
        (project / ".env").write_text(text, encoding="utf-8")
    kept = ("PATH", "HOME", "DOCKER_CONFIG")
    done = subprocess.run(  # noqa: S603
        ["docker", "compose", *COMMANDS[command], "config", "--format", "json"],  # noqa: S607
        cwd=project,
        env={name: os.environ[name] for name in kept if name in os.environ} | shell,  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_the_default_without_dot_env_is_a_trial_on_loopback(project: Path, command: str) -> None:
    services = configured(project, command)["services"]
    environment = services["gateway"]["environment"]
    (port,) = services["gateway"]["ports"]
    assert (port["host_ip"], port["published"]) == ("127.0.0.1", "8082")
    assert environment["GATEWAY_ADDRESS"] == "127.0.0.1"
    assert environment["MCP_PROXY_STATE_KEY"] == "for-local-trial-only-set-your-own-key"
    assert services["redis"]["environment"]["REDISCLI_AUTH"] == "for-local-trial-only"


@pytest.mark.parametrize("command", COMMANDS)
def test_only_the_dot_env_of_the_root_is_used(project: Path, command: str) -> None:
    services = configured(project, command, OWN)["services"]
    environment = services["gateway"]["environment"]
    for name in OWN.keys() - {"REDIS_PASSWORD", "MCP_PROXY_PORT"}:
        assert environment[name] == OWN[name]
    for name in ("redis", "state"):
        assert services[name]["environment"]["REDISCLI_AUTH"] == OWN["REDIS_PASSWORD"]
    for variable in ("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "MCP_PROXY_STATE_URL"):
        assert f":{OWN['REDIS_PASSWORD']}@" in environment[variable]
    assert environment["MCP_PROXY_PORT"] == "8082"
    (port,) = services["gateway"]["ports"]
    assert (port["host_ip"], port["published"]) == ("127.0.0.2", "9082")
    assert "for-local-trial-only" not in json.dumps(services)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("own", [None, OWN])
def test_paths_are_relative_to_the_root(
    project: Path, command: str, own: dict[str, str] | None
) -> None:
    gateway = configured(project, command, own)["services"]["gateway"]
    assert Path(gateway["build"]["context"]) == project
    binds = [it["source"] for it in gateway["volumes"] if it["type"] == "bind"]
    assert binds == [str(project / "docker/config")]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_shell_overrides_dot_env(project: Path, command: str) -> None:
    services = configured(project, command, OWN, REDIS_PASSWORD="of-the-shell")["services"]
    assert services["redis"]["environment"]["REDISCLI_AUTH"] == "of-the-shell"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_every_setting_changes_nothing(project: Path, command: str) -> None:
    before = configured(project, command)["services"]
    shutil.copy(ROOT / ".env.example", project / ".env")
    services = configured(project, command)["services"]
    gateway = services.pop("gateway")
    assert services == {name: it for name, it in before.items() if name != "gateway"}
    for name, value in before["gateway"]["environment"].items():
        assert gateway["environment"][name] == value


def test_the_postgresql_lines_in_dot_env_start_it(project: Path) -> None:
    lines = (ROOT / "docker/postgres.env").read_text(encoding="utf-8")
    (project / ".env").write_text(lines, encoding="utf-8")
    services = configured(project, "root")["services"]
    assert {"postgres", "migrate"} <= services.keys()
    assert services["gateway"]["scale"] == 2
    assert "@postgres:5432" in services["gateway"]["environment"]["MCP_PROXY_DOCUMENTS_URL"]
