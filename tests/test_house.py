"""The documentation matches the code; checks that linters lack."""

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic_settings import BaseSettings

from docs import command_line, config_tables, metrics_table, tools_table
from docs.settings_table import spelt, written
from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import errors_by_code
from mcp_tools_proxy.http.responses import STATUS_OF_CODE
from mcp_tools_proxy.server.uvicorn_server import build_server
from mcp_tools_proxy.settings.auth import ClientSettings
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import ENV_PREFIX
from retrieval_service.app import RetrievalSettings
from tests.support.source_files import ROOT, source_files
from tests.support.tables import named_row

README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = {
    page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")
}
RETRIEVAL_README = (ROOT / "services/retrieval_service/README.md").read_text(encoding="utf-8")
ENV_EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
SOURCES = list(source_files("services", "tests", "benchmarks"))
PACKAGES = sorted(path.parent for path in (ROOT / "services").rglob("__init__.py"))


def variables(model: type[BaseSettings], prefix: str) -> dict[str, object]:
    """Map each environment variable of a settings model to its default."""
    return {
        str(field.validation_alias or f"{prefix}{name.upper()}"): field.default
        for name, field in model.model_fields.items()
    }


GATEWAY_VARIABLES = variables(Settings, ENV_PREFIX)
RETRIEVAL_VARIABLES = variables(RetrievalSettings, "RETRIEVAL_")
CLIENT_VARIABLES = variables(ClientSettings, ENV_PREFIX)


def in_example(variable: str) -> str | None:
    """Return the value in .env.example, "" if it is commented out, None if it is absent."""
    line = re.search(rf"^(# )?{variable}=(.*)$", ENV_EXAMPLE, re.MULTILINE)
    return None if line is None else "" if line[1] else line[2]


def same(written: str | None, default: object) -> bool:
    if isinstance(default, float) and written:
        return float(written) == default
    return written == spelt(default).strip("–")  # the page has a dash for none


def test_the_settings_page_has_every_setting_once() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", REFERENCE["settings"], re.MULTILINE)
    assert sorted(rows) == sorted(GATEWAY_VARIABLES)


def test_the_settings_page_matches_the_code() -> None:
    """``make docs`` writes its tables."""
    assert written(REFERENCE["settings"]) == REFERENCE["settings"]


def test_the_keys_of_configuration_files_are_those_of_the_schemas() -> None:
    """``make docs`` writes the tables."""
    for page in config_tables.PAGES:
        text = page.read_text(encoding="utf-8")
        with named_row(page):
            assert config_tables.written(text) == text


def test_the_table_of_document_tools_is_generated_from_their_definitions() -> None:
    """``make docs`` writes it."""
    assert tools_table.written(REFERENCE["tools"]) == REFERENCE["tools"]


def test_the_page_of_the_command_line_is_generated_from_the_commands() -> None:
    """``make docs`` writes it."""
    assert command_line.written(REFERENCE["cli"]) == REFERENCE["cli"]


def test_the_retrieval_readme_describes_every_setting() -> None:
    for variable in RETRIEVAL_VARIABLES:
        with named_row(variable):
            assert f"`{variable}`" in RETRIEVAL_README


FOR_A_TRIAL = {"MCP_PROXY_RETRIEVAL_WINDOW_URL": "local"}
"""Settings without a default that have a value in .env.example, so that every tool works."""


def test_the_example_file_has_every_setting_and_its_default() -> None:
    for variable in [*GATEWAY_VARIABLES, *RETRIEVAL_VARIABLES]:
        with named_row(variable):
            default = (GATEWAY_VARIABLES | RETRIEVAL_VARIABLES | FOR_A_TRIAL)[variable]
            assert same(in_example(variable), default)


def test_the_example_file_has_only_settings_that_are_read() -> None:
    named = set(re.findall(r"^(?:# )?([A-Z][A-Z_]+)=", ENV_EXAMPLE, re.MULTILINE))
    assert named - GATEWAY_VARIABLES.keys() - RETRIEVAL_VARIABLES.keys() == set()


reads: set[str] = set()


class RecordedSettings(Settings):
    """Settings that record the names of the fields that are read."""

    def __getattribute__(self, name: str) -> object:
        if name in Settings.model_fields:
            reads.add(name)
        return super().__getattribute__(name)


JWT = {"auth_mode": "jwt", "jwt_issuer": "https://issuer.example", "jwt_audience": "us"}
REMOTE = {"remote_url": "wss://backend.example"}
CONFIGURATIONS: Sequence[Mapping[str, object]] = (
    {"allowed_origins": "https://app.example"},
    {"retrieval_window_url": "http://retrieval.internal/window"},
    {"state_url": "redis://state.internal:6379/0", "state_key": "k" * 20 + "0123456789abcdef"},
    {"documents_url": "postgresql://gateway:secret@db.internal/documents"},
    {
        "runs_url": "postgresql://gateway:secret@db.internal/runs",
        "state_key": "k" * 20 + "0123456789abcdef",
    },
    {"auth_mode": "token", "tokens_file": "tokens", "admin_token": "correct-horse-battery"},
    {**JWT, "jwt_jwks_url": "https://issuer.example/keys"},
    {**JWT, "jwt_jwks_file": "keys"},
    {**JWT, "jwt_jwks_file": "keys", "jwt_audience": "https://gw/mcp", "public_url": "https://gw"},
    {**REMOTE, "remote_token": "secret"},
    {**REMOTE, "remote_token_file": "secret"},
    {"audit": "file:never-opened", "audit_key_file": str(ROOT / "LICENSE")},
    {"otlp_endpoint": "http://collector.internal:4318"},
    {"documents_keep_originals": True},
    {"console": True, "admin_token": "correct-horse-battery"},
    {"credentials_key": ("0123456789abcdef0123456789abcdef",)},
    {
        **JWT,
        "jwt_jwks_file": "keys",
        "public_url": "https://gw",
        "signin_client_id": "pages",
        "credentials_key": ("0123456789abcdef0123456789abcdef",),
    },
    {"embeddings_url": "http://embeddings.internal/v1/embeddings", "embeddings_model": "small"},
)
"""Each setting affects the construction of the service in one of these."""

READ_ELSEWHERE = {
    "port", "workers", "documents_owner_url", "logins_dir", "jwt_allow_http",
    "remote_allow_insecure", "otlp_protocol", "otlp_traces_protocol", "gateway_address",
}  # fmt: skip
"""Settings read by the ``serve`` command itself or by the settings' own validators."""


def test_every_setting_of_the_gateway_is_read() -> None:
    found = set(READ_ELSEWHERE)
    for configuration in CONFIGURATIONS:
        settings = RecordedSettings.model_validate(configuration)
        reads.clear()  # validators read fields, too
        build_server(settings)
        found |= reads
    assert Settings.model_fields.keys() - found == set()


def error_codes() -> set[str]:
    return {*errors_by_code()}


def test_the_page_of_errors_has_a_row_for_every_code() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)`", REFERENCE["errors"], re.MULTILINE)
    assert sorted(rows) == sorted({*error_codes(), CapacityExceeded.code})


def test_every_code_belongs_to_a_check() -> None:
    assert error_codes() - CHECK_OF_CODE.keys() == set()


def test_only_known_codes_have_a_status() -> None:
    assert STATUS_OF_CODE.keys() - error_codes() == {CapacityExceeded.code}


def test_the_openapi_document_lists_every_code() -> None:
    schemas = create_app(Settings()).openapi()["components"]["schemas"]
    assert sorted(schemas["ErrorCode"]["enum"]) == sorted({*error_codes(), CapacityExceeded.code})


def test_every_route_is_on_the_page_of_the_http_api() -> None:
    paths = create_app(Settings()).openapi()["paths"]
    assert [path for path in paths if path not in REFERENCE["http-api"]] == []


def test_the_page_of_metrics_is_generated_from_the_metrics() -> None:
    """``make docs`` writes its tables."""
    assert metrics_table.written(REFERENCE["metrics"]) == REFERENCE["metrics"]


LOGGED = re.compile(r"log\.(?:info|warning|error)\(\s*\"([a-z_.]+)\"")
"""Events for operators; those of a crash are documented together."""


def test_every_log_event_is_in_the_reference() -> None:
    gateway = [path for path in SOURCES if "services/mcp_tools_proxy" in path.as_posix()]
    events = {it for path in gateway for it in LOGGED.findall(path.read_text(encoding="utf-8"))}
    assert len(events) > 20
    described = (event for event in sorted(events) if not event.endswith("crashed"))
    pages = REFERENCE["metrics-and-logs"] + REFERENCE["connector-protocol"]
    assert [event for event in described if f"`{event}`" not in pages] == []


def test_every_experiment_is_on_the_page_about_performance() -> None:
    source = (ROOT / "benchmarks/__main__.py").read_text(encoding="utf-8")
    page = (ROOT / "docs/explanation/performance.md").read_text(encoding="utf-8")
    experiments = re.findall(r"^    \"([a-z-]+)\": measure_", source, re.MULTILINE)
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == sorted(experiments)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_pages_name_only_settings_that_are_read() -> None:
    named = {
        variable
        for page in PAGES
        for variable in re.findall(r"\bMCP_PROXY_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8"))
    }
    assert named - GATEWAY_VARIABLES.keys() - CLIENT_VARIABLES.keys() == set()


def test_every_error_is_in_the_drawing_of_the_tree() -> None:
    source = (ROOT / "services/mcp_tools_proxy/domain/errors.py").read_text(encoding="utf-8")
    drawing = source.split('"""')[1]
    assert [e.__name__ for e in errors_by_code().values() if e.__name__ not in drawing] == []


MAX_SHARED_NAMES = 12
MAX_README_LINES = 200
SCREEN_LINES = 30


def test_the_readme_is_short_and_has_an_answer_on_the_first_screen() -> None:
    assert len(README.splitlines()) <= MAX_README_LINES
    assert README.partition("```json")[0].count("\n") < SCREEN_LINES


def test_the_navigation_has_every_page_but_single_decisions() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries = re.findall(r"([\w/-]+\.md)$", settings.partition("\nnav:")[2], re.MULTILINE)
    pages = [it.relative_to(ROOT / "docs").as_posix() for it in (ROOT / "docs").rglob("*.md")]
    single = re.compile(r"decisions/(?!index)")
    assert sorted(entries) == sorted(page for page in pages if not single.match(page))


def test_the_documentation_loads_nothing_from_other_hosts() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert ("font: false" in settings, "://" in settings, "mermaid" in settings) == (
        True,
        False,
        False,
    )


def test_every_package_states_its_purpose() -> None:
    silent = [
        package.relative_to(ROOT)
        for package in PACKAGES
        if not ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_few_modules_share_a_file_name() -> None:
    """Searching for a file by name should find one file."""
    names = Counter(path.name for package in PACKAGES for path in package.glob("[!_]*.py"))
    assert len([name for name, files in names.items() if files > 1]) <= MAX_SHARED_NAMES


def test_a_lock_has_hashes_and_no_registry() -> None:
    for name in ["runtime", "dev", "browser", "docs", "build"]:
        with named_row(name):
            lock = (ROOT / f"requirements/{name}.lock").read_text(encoding="utf-8")
            assert ("--hash=sha256:" in lock, "://" in lock, "index-url" in lock) == (
                True,
                False,
                False,
            )


_OWN_BOUND = re.compile(
    r"(?:asyncio\.timeout|fail_after)\([1-9]|mark\.timeout|wait_for\([^\n]*, [1-9][\d.]*\)"
)


def test_waits_use_the_common_bound() -> None:
    """Separate bounds made other tests fail in each of three runs on a busy machine."""
    own = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "tests") and path != Path(__file__)
        for found in _OWN_BOUND.findall(path.read_text(encoding="utf-8"))
    ]
    assert own == []


_IMPORT_OF_A_TEST = re.compile(r"^\s*(?:from|import) (tests(?:\.\w+)*\.test_\w+)", re.MULTILINE)


def test_no_module_imports_from_a_test_module() -> None:
    """Code shared by test modules belongs in a helper: in their folder, or in tests/support."""
    importers = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "tests")
        for found in _IMPORT_OF_A_TEST.findall(path.read_text(encoding="utf-8"))
    ]
    assert importers == []
