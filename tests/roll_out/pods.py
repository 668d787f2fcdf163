"""Containers with the constraints of the chart's pods, run by Docker on this machine.

All share one network namespace with only a loopback, so each pod has its own port. Published ports
would not work: Docker's proxy accepts a connection even if the container refuses it."""

import asyncio
import json
import secrets
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

import yaml  # type: ignore[import-untyped] # untyped

from deploy.render import NAME, render

IMAGE = "mcp-tools-proxy:0.1.0"
REDIS = "redis:7-alpine"
BOUND_S = 300.0
"""Seconds after which a pod that is not ready has failed."""

FILES: dict[str, Any] = {
    "mcp.json": {
        "mcpServers": {"notes": {"type": "http", "url": "http://127.0.0.1:8084/mcp"}},
        "defaultPresetId": "all",
    },
    "preset_all.json": {
        "id": "all",
        "name": "All",
        "tools": [{"serverId": "notes", "toolName": "search_notes"}],
    },
}
SECRETS = {
    "MCP_PROXY_RATE_LIMIT_STORAGE_URL": "redis://127.0.0.1:6379/0",
    "MCP_PROXY_SESSION_KEYS": secrets.token_hex(32),
}
VALUES: dict[str, Any] = {
    "settings": {
        "MCP_PROXY_RATE_LIMIT_CALLS": 0,
        "MCP_PROXY_RATE_LIMIT_TOKENS": 0,
        "MCP_PROXY_RATE_LIMIT_TENANT_CALLS": 10_000_000,
        "MCP_PROXY_RATE_LIMIT_TENANT_TOKENS": 0,
        "MCP_PROXY_LOG_LEVEL": "warning",
        "MCP_PROXY_STARTUP_WAIT_S": 60,  # on a machine that runs everything
    },
    "secrets": {"redisUrl": {"name": "s"}, "sessionKeys": {"name": "s"}},
    "config": {"files": FILES},
}
PEAK = "cat /sys/fs/cgroup/memory.peak || cat /sys/fs/cgroup/memory/memory.max_usage_in_bytes"
"""Of cgroup versions 2 and 1."""


async def docker(*words: str) -> str:
    """Run a Docker command; return its output. Raises RuntimeError."""
    process = await asyncio.create_subprocess_exec("docker", *words, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"docker {' '.join(words)}: {err.decode().strip()}")
    return out.decode().strip()


class Pod:
    """A container of the gateway."""

    def __init__(self, name: str, port: int, grace_s: int) -> None:
        self.name = name
        self.url = f"http://127.0.0.1:{port}"
        self._grace_s = grace_s

    async def stop(self) -> int:
        """End it like a kubelet after preStop; return its exit code."""
        await docker("stop", "--time", str(self._grace_s), self.name)
        return int(await docker("inspect", "--format", "{{.State.ExitCode}}", self.name))

    async def peak_mib(self) -> int:
        """Return its peak memory, including the page cache."""
        return int(await docker("exec", self.name, "sh", "-c", f"({PEAK}) 2>/dev/null")) // 2**20


class Client:
    """The program of the callers, in a container in the same namespace."""

    def __init__(self, process: Process, ready_path: str) -> None:
        self._process = process
        self._ready_path = ready_path

    async def add(self, pod: Pod) -> int:
        """Wait until a pod is ready and call it; return the number of calls with a result."""
        return await self._command(add=pod.url, ready_path=self._ready_path)

    async def remove(self, pod: Pod) -> int:
        """Stop calling a pod; return the number of calls with a result."""
        return await self._command(remove=pod.url)

    async def stop(self) -> dict[str, Any]:
        """Return the outcomes of all callers' requests."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self._report()

    async def _command(self, **command: str) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        calls: int = (await self._report())["calls"]
        return calls

    async def _report(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(BOUND_S):
            report: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return report


class Cluster:
    """A Redis, an MCP server, callers, and pods of the gateway as described by the chart."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._id = f"roll-out-{secrets.token_hex(3)}"
        self._config = folder / "config"
        self._stack = stack
        self._started = 0
        self._spec = pod_spec()

    async def open(self) -> Self:
        """Start everything except the pods and the callers."""
        self._config.mkdir(mode=0o755)
        for name, content in FILES.items():
            (self._config / name).write_text(json.dumps(content), encoding="utf-8")
        await self._run("redis", ["--network", "none"], REDIS, "redis-server", "--save", "")
        server = ("python", "/opt/examples/notes_server.py", "--http")
        await self._wait_until_healthy(await self._run("notes", self._network(), IMAGE, *server))
        return self

    async def client(self) -> Client:
        """Start the program of the callers."""
        code = f"{Path(__file__).parent}:/opt/client/tests/roll_out:ro"
        process = await asyncio.create_subprocess_exec(
            *("docker", "run", "--rm", "--interactive", "--pull", "never", *self._network()),
            *("--volume", code, "--env", "PYTHONPATH=/opt/client"),
            *(IMAGE, "python", "-m", "tests.roll_out.client"),
            stdin=PIPE,
            stdout=PIPE,
        )
        self._stack.push_async_callback(end, process)
        return Client(process, self._container["readinessProbe"]["httpGet"]["path"])

    async def start_pod(self) -> Pod:
        """Start one more pod without waiting until it is ready."""
        self._started += 1
        port = 8100 + self._started
        options = [*self._network(), *self._constraints(), "--env", f"MCP_PROXY_PORT={port}"]
        name = await self._run(f"gateway-{self._started}", options, IMAGE)
        return Pod(name, port, self._spec["terminationGracePeriodSeconds"])

    async def _wait_until_healthy(self, name: str) -> None:
        check = ("exec", name, "python", "/opt/healthcheck.py", "8084")
        async with asyncio.timeout(BOUND_S):
            while True:
                with suppress(RuntimeError):
                    await docker(*check)
                    return
                await asyncio.sleep(0.1)

    @property
    def _container(self) -> dict[str, Any]:
        container: dict[str, Any] = self._spec["containers"][0]
        return container

    def _network(self) -> list[str]:
        return ["--network", f"container:{self._id}-redis"]

    def _constraints(self) -> list[str]:
        """Return Docker options for the chart's pod spec."""
        user = self._spec["securityContext"]
        memory = self._container["resources"]["limits"]["memory"].removesuffix("Mi")
        options = [
            "--read-only",
            "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges:true",
            "--user", f"{user['runAsUser']}:{user['runAsGroup']}",
            "--memory", f"{memory}m", "--memory-swap", f"{memory}m",
            "--volume", f"{self._config}:/data/config:ro",
            "--volume", "/data/scratch",
            "--tmpfs", "/tmp:size=64m,mode=1777",  # noqa: S108 - of the container
        ]  # fmt: skip
        for it in self._container["env"]:
            if it["name"] != "MCP_PROXY_PORT":
                options += ["--env", f"{it['name']}={it.get('value', SECRETS.get(it['name']))}"]
        return options

    async def _run(self, name: str, options: list[str], image: str, *command: str) -> str:
        own = f"{self._id}-{name}"
        shared = ("run", "--detach", "--pull", "never", "--name", own)
        await docker(*shared, *options, image, *command)
        self._stack.push_async_callback(docker, "rm", "--force", "--volumes", own)
        return own


async def end(process: Process) -> None:
    """End a program that is still running."""
    if process.returncode is None:
        process.terminate()
    await process.communicate()


def pod_spec() -> dict[str, Any]:
    """Return the chart's spec of a pod."""
    text = render(VALUES, name=NAME)[f"{NAME}/templates/deployment.yaml"]
    spec: dict[str, Any] = yaml.safe_load(text)["spec"]["template"]["spec"]
    return spec


def readable_folder(path: str) -> Path:
    """Return a folder that the pod's user can read."""
    folder = Path(path)
    folder.chmod(0o755)
    return folder


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Open a cluster; remove everything afterwards."""
    with tempfile.TemporaryDirectory() as made:
        folder = readable_folder(made)
        async with AsyncExitStack() as stack:
            yield await Cluster(folder, stack).open()
