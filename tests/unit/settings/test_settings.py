"""Settings from the environment (contract §4)."""

from pathlib import Path

import pytest

from mcp_tools_proxy.settings.settings import Settings, SettingsError, load_settings
from tests.support.tables import each_row


@each_row(
    ("variable", "value"),
    [
        ("MCP_PROXY_HOST", ""),
        ("MCP_PROXY_DOCUMENTS_PATH", " "),
        ("MCP_PROXY_PORT", "http"),
        ("MCP_PROXY_PORT", "70000"),
        ("MCP_PROXY_MAX_PAGES_PER_CALL", "-1"),
        ("MCP_PROXY_DOCUMENTS_KEEP_VERSIONS", "0"),
        ("MCP_PROXY_MAX_TEXT_BYTES", "3"),
        ("MCP_PROXY_RATE_LIMIT_CALLS", "-1"),
        ("MCP_PROXY_RATE_LIMIT_WINDOW_S", "0"),
        ("MCP_PROXY_RETRIEVAL_TIMEOUT", "nan"),
        ("MCP_PROXY_RETRIEVAL_TIMEOUT", "0"),
        ("MCP_PROXY_RETRIEVAL_WINDOW_URL", "ftp://secret"),
        ("MCP_PROXY_RETRIEVAL_WINDOW_URL", "localsecret:8083"),
        ("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "memcached://secret"),
        ("MCP_PROXY_RUNS_URL", "mysql://secret"),
        ("MCP_PROXY_RUNS_IDLE_S", "0"),
        ("MCP_PROXY_BLOCKLIST_KEYWORDS", "[1"),
        ("MCP_PROXY_BLOCKLIST_KEYWORDS", "[1]"),
        ("MCP_PROXY_LOG_LEVEL", "loud"),
        ("MCP_PROXY_MOCK_MODE", "perhaps"),
        ("MCP_PROXY_MAX_CHUNK_WINDOW", "-1"),
        ("RAG_WINDOW_RADIUS", "-1"),
        ("MCP_PROXY_CONFIG_DIR", ""),
        ("MCP_PROXY_ADMIN_TOKEN", "two secret words"),
        ("MCP_PROXY_ADMIN_TOKEN", "secrät"),
        ("MCP_PROXY_ADMIN_TOKEN", "fifteen-secrets"),
        ("MCP_PROXY_TOOL_TIMEOUT_S", "0"),
        ("MCP_PROXY_TOOL_TIMEOUT_S", "inf"),
        ("MCP_PROXY_REQUIRE_AGENT", "perhaps"),
        ("MCP_PROXY_AUTH_MODE", "secret"),
        ("MCP_PROXY_JWT_ALGORITHMS", "HS256"),
        ("MCP_PROXY_JWT_ALGORITHMS", "RS256,none"),
        ("MCP_PROXY_JWT_ALGORITHMS", ""),
        ("MCP_PROXY_JWT_LEEWAY_S", "-1"),
        ("MCP_PROXY_JWT_TENANT_CLAIM", ""),
        ("MCP_PROXY_JWT_JWKS_URL", "file:///secret"),
        ("MCP_PROXY_OCR_LANGUAGES", "../secret"),
        ("MCP_PROXY_OCR_LANGUAGES", "eng,deu/secret"),
        ("MCP_PROXY_OCR_TIMEOUT_S", "0"),
        ("MCP_PROXY_ALLOWED_ORIGINS", "secret.example"),
        ("MCP_PROXY_ALLOWED_ORIGINS", "https://secret.example/"),
    ],
)
def test_an_invalid_value_is_reported_in_one_line_with_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    message = str(caught.value)
    assert (message.startswith(f"{variable}: "), "\n" in message, "secret" in message) == (
        True,
        False,
        False,
    )


@each_row(
    ("value", "keywords"),
    [
        ("", ()),
        ("a, b ,,c", ("a", "b", "c")),
        ('["a,b", "c"]', ("a,b", "c")),
        ("[]", ()),
        ("утечка", ("утечка",)),
    ],
)
@pytest.mark.requirement("T-06")
def test_keywords_are_comma_separated_or_json(
    monkeypatch: pytest.MonkeyPatch, value: str, keywords: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MCP_PROXY_BLOCKLIST_KEYWORDS", value)
    assert load_settings().blocklist_keywords == keywords


@pytest.mark.requirement("T-06")
def test_by_default_keywords_are_not_blocked() -> None:
    assert Settings().blocklist_keywords == ()


@each_row(
    "name",
    [
        "RETRIEVAL_WINDOW_URL",
        "RETRIEVAL_TOKEN",
        "RATE_LIMIT_STORAGE_URL",
        "PRESET",
        "ADMIN_TOKEN",
        "REQUIRE_AGENT",
    ],
)
def test_an_empty_optional_setting_is_unset(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"MCP_PROXY_{name}", "")
    assert getattr(load_settings(), name.lower()) is None


def test_settings_are_read_from_a_dotenv_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MCP_PROXY_PORT=9999\nRAG_WINDOW_RADIUS=5\n")
    settings = load_settings()
    assert (settings.port, settings.window_radius) == (9999, 5)


def test_a_dotenv_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"MCP_PROXY_APP_NAME=\xff")
    with pytest.raises(SettingsError, match=r"\.env"):
        load_settings()


def test_the_environment_overrides_the_dotenv_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("MCP_PROXY_PORT=9999\n")
    monkeypatch.setenv("MCP_PROXY_PORT", "1234")
    assert load_settings().port == 1234


def test_the_repr_does_not_contain_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_RETRIEVAL_TOKEN", "hush")
    monkeypatch.setenv("MCP_PROXY_RATE_LIMIT_STORAGE_URL", "redis://:hush@h")
    monkeypatch.setenv("MCP_PROXY_ADMIN_TOKEN", "hush" * 4)
    assert "hush" not in repr(load_settings())


@each_row(("spelt", "level"), [("INFO", "info"), ("Warn", "warning"), ("warning", "warning")])
def test_the_log_level_accepts_several_spellings(
    monkeypatch: pytest.MonkeyPatch, spelt: str, level: str
) -> None:
    monkeypatch.setenv("MCP_PROXY_LOG_LEVEL", spelt)
    assert load_settings().log_level == level


@each_row(
    ("name", "value", "read"),
    [
        ("LOG_LEVEL", "critical", "error"),
        ("LOG_LEVEL", " FATAL", "error"),
        ("MAX_PAGES_PER_CALL", "0", 1),
        ("MAX_CHUNK_WINDOW", "0", 1),
    ],
)
def test_a_value_of_the_previous_system_is_mapped_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, read: object
) -> None:
    monkeypatch.setenv(f"MCP_PROXY_{name}", value)
    settings = load_settings()
    assert getattr(settings, name.lower()) == read
    assert [str(warning).split(": ")[0] for warning in settings.warnings] == [f"MCP_PROXY_{name}"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "MCP_PROXY_AUTHMODE",
            "is not a setting and is ignored; did you mean MCP_PROXY_AUTH_MODE?",
        ),
        ("mcp_proxy_prot", "is not a setting and is ignored; did you mean MCP_PROXY_PORT?"),
        ("MCP_PROXY_OF_TOMORROW", "is not a setting and is ignored"),
    ],
)
@pytest.mark.parametrize("in_file", [False, True], ids=["environment", "file"])
def test_an_unknown_variable_causes_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str, in_file: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if in_file:
        (tmp_path / ".env").write_text(f"{name}=1\nOTHERS_VARIABLE=1\n")
    else:
        monkeypatch.setenv(name, "1")
    assert load_settings().warnings == ((name.upper(), reason),)


@each_row(
    "name",
    [
        *("PORT_8082_TCP", "PORT_8082_TCP_ADDR", "SERVICE_HOST", "SERVICE_PORT_HTTP"),
        *("REDIS_SERVICE_PORT", "REDIS_PORT_6379_TCP_PROTO"),
    ],
)
def test_service_variables_of_kubernetes_do_not_cause_warnings(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"MCP_PROXY_{name}", "tcp://10.0.0.1:8082")
    assert load_settings().warnings == ()


@pytest.mark.requirement("T-02")
def test_a_chunk_window_of_zero_is_only_the_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_MAX_CHUNK_WINDOW", "0")
    assert load_settings().window_radius == 0


def test_usual_settings_do_not_cause_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_MAX_CHUNK_WINDOW", "5")
    assert load_settings().warnings == ()
