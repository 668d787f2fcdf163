"""Fixtures shared by the tests of several packages."""

import gc
import itertools
import os
import re
import resource
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from mcp_tools_proxy.downstream.mcp_client import dialer, stdio_process
from mcp_tools_proxy.ratelimit import failover, limiter
from mcp_tools_proxy.server.garbage_collector import THRESHOLDS
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import ENV_PREFIX
from mcp_tools_proxy.storage import cache_folder, redis_pool
from retrieval_service.app import RetrievalSettings
from tests.support.assertion_cache import fill_assertion_cache
from tests.support.bounds import BOUND_S
from tests.support.examples import ALL_EXAMPLES, QUICK_EXAMPLES
from tests.support.failure_reports import report_leaves
from tests.support.goldens import Golden

if TYPE_CHECKING:
    from tests.support.postgres_databases import Databases

OF_SETTINGS = {
    *(
        str(field.validation_alias or f"{ENV_PREFIX}{name.upper()}")
        for name, field in Settings.model_fields.items()
    ),
    *(f"RETRIEVAL_{name.upper()}" for name in RetrievalSettings.model_fields),
}
"""Variables read by the programs."""

DESCRIPTORS = 4096
"""A worker's limit of open files, if the machine allows it; the tests need a quarter of it."""

_numbers = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--update``, which writes goldens from the current code."""
    parser.addoption("--update", action="store_true", help="write the files of tests/goldens/")


def pytest_configure(config: pytest.Config) -> None:
    """Isolate tests from the machine's load and from the parent process.

    Hypothesis would fail an example that takes over 200 ms; ``--hypothesis-profile full`` draws ten
    times as many examples. A shell of macOS allows 256 descriptors although the system allows more.
    Background processes of a shell ignore SIGINT and SIGQUIT, as do their children: two tests that
    interrupt the program failed after ``nohup make test &``.
    """
    settings.register_profile(
        "full",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=ALL_EXAMPLES,
    )
    settings.register_profile("quick", settings.get_profile("full"), max_examples=QUICK_EXAMPLES)
    settings.load_profile(config.getoption("--hypothesis-profile") or "quick")
    fill_assertion_cache(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(
                number,
                signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL,
            )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without garbage collections, a fifth of the time in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests of a requirement that only ``make test-full`` runs."""
    left = [it.nodeid for it in items if it.get_closest_marker("full")]
    cited = [it.nodeid for it in items if it.get_closest_marker("requirement")]
    if both := {*left} & {*cited}:
        raise pytest.UsageError(f"marked as full, and as the test of a requirement: {both}")


def pytest_collection_finish() -> None:
    """Exclude objects older than the first test from later garbage collections.

    Leak tests collect garbage each time, 0.2 s of CPU with all tests in memory; their own objects
    are still found. The thresholds are those of the serving program.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End a failure with the assertion, even inside task groups or a table."""
    report = yield
    if report.failed and call.excinfo and (shown := report_leaves(item, call.excinfo)):
        report.longrepr = shown
    return report


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder without pytest's search for the highest number among all tests' folders."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}_{next(_numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def own_cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep caches of document files out of this user's folder."""
    monkeypatch.setattr(cache_folder, "default_folder", lambda: tmp_path / "cache")


@pytest.fixture
def patient_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Redis without the limits after which the gateway would count locally."""
    monkeypatch.setattr(limiter, "STORE_WAIT_S", BOUND_S)
    monkeypatch.setattr(failover, "PROBE_TIMEOUT_S", BOUND_S)


@pytest.fixture(autouse=True)
def patient_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a connection, and for the end of a killed server, without a limit.

    Server and client share an event loop in most tests, and five hundred connections overflow its
    backlog: on a busy machine a connect took 9 s, as if the server were dead.
    """
    monkeypatch.setattr(dialer, "CONNECT_S", BOUND_S)
    monkeypatch.setattr(redis_pool, "CONNECT_TIMEOUT_S", BOUND_S)
    monkeypatch.setattr(stdio_process, "KILL_TIMEOUT_S", BOUND_S)


@pytest.fixture(scope="session")
def all_databases() -> Iterator["Databases"]:
    """This worker's PostgreSQL, started by the first test that needs it."""
    # asyncpg is slow to import
    from tests.support.postgres_databases import running_databases  # noqa: PLC0415

    with running_databases() as made:
        yield made


@pytest.fixture
def databases(all_databases: "Databases") -> Iterator["Databases"]:
    """Databases lent until the end of the test."""
    yield all_databases
    all_databases.take_back()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return a function that compares facts with a file of tests/goldens/."""
    module = request.path.relative_to(request.config.rootpath).as_posix()
    return Golden(update=request.config.getoption("--update"), module=module)


@pytest.fixture(scope="session")
def kept_secret_rules(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep the compiled rules for secrets in pytest's cache: they take 4 s of CPU per process."""
    import kingfisher_sdk  # noqa: PLC0415 - large

    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # None if off
    folder = cache.mkdir("secret-rules") if cache else None
    compile_rules = kingfisher_sdk.Rules

    def rules(**options: Any) -> kingfisher_sdk.Rules:
        return compile_rules(**options | {"cache": folder is not None, "cache_dir": folder})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kingfisher_sdk, "Rules", rules)
        yield


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def no_settings_of_the_environment() -> None:
    """Hide the developer's settings and proxies from the tests and their programs.

    With HTTP_PROXY and without NO_PROXY, clients of servers on this machine used the proxy.
    """
    for name in [*os.environ]:  # noqa: TID251 - variables are removed
        if name in OF_SETTINGS or name.lower().endswith("_proxy"):
            del os.environ[name]  # noqa: TID251 - this process runs only tests


@pytest.fixture(autouse=True)
def own_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the developer's .env, configuration and documents from the tests."""
    monkeypatch.chdir(tmp_path)
