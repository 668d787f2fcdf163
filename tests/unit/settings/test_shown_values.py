"""Messages about invalid settings show numbers and switches, never secrets."""

from collections.abc import Iterator

import pytest
from pydantic.fields import FieldInfo

from mcp_tools_proxy.settings.auth import ClientSettings
from mcp_tools_proxy.settings.settings import Settings, SettingsError, load
from mcp_tools_proxy.settings.types import EnvironmentSettings, variable
from tests.support.tables import each_row
from tests.unit.settings.environment import problem

MARK = "opensesame"
WRONG_SECRETS = (
    MARK,
    f"two {MARK} words",
    f"{MARK}é",
    f'["{MARK}',
    f'["{MARK}"]',
    f"NAME={MARK},OTHER={MARK}",
    f"ftp://user:{MARK}@host",
    f"https://user:{MARK}@[host",
    f"redis://:{MARK}/1@host:{MARK}",
    f"unix:///:{MARK}@/run/{MARK}.sock",
    f"postgresql://role:{MARK}@host:{MARK}",
    f"wss://user:{MARK}@host/#{MARK}",
)
SECRET_WORDS = ("KEY", "PASSWORD", "SECRET", "TOKEN", "URL", "ENDPOINT", "ENV")
"""Parts of names of settings that may contain a secret or an address with one."""


def secret_variables() -> Iterator[tuple[type[EnvironmentSettings], str]]:
    """Yield each variable that may contain a secret, with the class that reads it."""
    for kind in (Settings, ClientSettings):
        for name, field in kind.model_fields.items():
            shown = str(field.validation_alias or variable(name))
            if may_be_secret(field, shown):
                yield kind, shown


def may_be_secret(field: FieldInfo, name: str) -> bool:
    """Return whether a setting may contain a secret, by its type or name."""
    if field.annotation in (bool, float, int):
        return False
    return "SecretStr" in str(field.annotation) or bool({*name.split("_")} & {*SECRET_WORDS})


@each_row(
    ("name", "value", "message"),
    [
        ("PORT", "abc", "should be an integer"),
        ("PORT", "70000", "should be less than or equal to 65535"),
        ("MAX_PAGES_PER_CALL", "-1", "should be greater than or equal to 1"),
        ("KEEP_ALIVE_S", "soon", "should be a number"),
        ("KEEP_ALIVE_S", "0", "should be greater than 0"),
        ("RETRIEVAL_TIMEOUT", "nan", "should be a finite number"),
        ("MOCK_MODE", "perhaps", "should be true or false"),
    ],
)
def test_an_invalid_number_or_switch_is_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    shown = f'MCP_PROXY_{name}: {message}, not "{value}"'
    assert problem(monkeypatch, {name: value}) == shown


@each_row(("kind", "name"), [*secret_variables()])
def test_a_value_that_may_be_a_secret_is_never_shown(
    monkeypatch: pytest.MonkeyPatch, kind: type[EnvironmentSettings], name: str
) -> None:
    for value in WRONG_SECRETS:
        monkeypatch.setenv(name, value)
        try:
            load(kind)
        except SettingsError as error:
            assert MARK not in str(error)  # noqa: PT017 - some of these values are valid


def test_every_secret_setting_is_among_the_tested_variables() -> None:
    tried = {name for _, name in secret_variables()}
    assert {
        "MCP_PROXY_ADMIN_TOKEN",
        "MCP_PROXY_CREDENTIALS_KEY",
        "MCP_PROXY_DOCUMENTS_URL",
        "MCP_PROXY_CLIENT_TOKEN",
        "MCP_PROXY_STDIO_ENV",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    } <= tried
