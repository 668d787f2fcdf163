from pathlib import Path

import pytest

from mcp_tools_proxy.settings.settings import Settings, load_settings
from tests.support.tables import each_row
from tests.unit.settings.environment import problem, put

ON = {"REMOTE_URL": "wss://secret.example/ws/{server_identifier}", "REMOTE_TOKEN": "secret"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (ON | {"REMOTE_TOKEN": ""}, "REMOTE_TOKEN"),
        (ON | {"REMOTE_TOKEN": "two secret words"}, "REMOTE_TOKEN"),
        (ON | {"REMOTE_TOKEN_FILE": "secret"}, "REMOTE_TOKEN"),
        (ON | {"REMOTE_URL": "ws://secret.example"}, "REMOTE_URL"),
        (ON | {"REMOTE_URL": "ws://localhost.secret.example"}, "REMOTE_URL"),
        (ON | {"REMOTE_SERVER_IDENTIFIER": "secret/secret"}, "REMOTE_SERVER_IDENTIFIER"),
        (ON | {"REMOTE_SERVER_IDENTIFIER": ".."}, "REMOTE_SERVER_IDENTIFIER"),
        (ON | {"REMOTE_TENANT_ID": "secret\t"}, "REMOTE_TENANT_ID"),
        (ON | {"REMOTE_AGENT": "secret\t"}, "REMOTE_AGENT"),
        (ON | {"REMOTE_URL": "ws://127.0.0.1", "REMOTE_CA_FILE": __file__}, "REMOTE_URL"),
        (ON | {"REMOTE_CA_FILE": "secret.pem"}, "REMOTE_CA_FILE"),
        (ON | {"REMOTE_CA_FILE": "."}, "REMOTE_CA_FILE"),
        (ON | {"REMOTE_MAX_FRAME_BYTES": "0"}, "REMOTE_MAX_FRAME_BYTES"),
        (ON | {"REMOTE_KEEPALIVE_S": "0"}, "REMOTE_KEEPALIVE_S"),
        (ON | {"REMOTE_DROP_GRACE_S": "-1"}, "REMOTE_DROP_GRACE_S"),
        (ON | {"REMOTE_RETRY_MAX_S": "inf"}, "REMOTE_RETRY_MAX_S"),
    ],
)
def test_useless_settings_are_reported_in_one_line_with_a_variable(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], named: str
) -> None:
    message = problem(monkeypatch, settings)
    assert (message.startswith(f"MCP_PROXY_{named}: "), "\n" in message, "secret" in message) == (
        True,
        False,
        False,
    )


@each_row(
    "url",
    [
        "https://secret.example",
        "secret.example",
        "wss://",
        "wss:///secret",
        "wss://:443/secret",
        "wss://secret.example:http",
        "wss://secret.example:0",
        "wss://[secret",
        "wss://me:secret@secret.example",
        "wss://secret@secret.example",
        "wss://@secret.example",
        "wss://secret.example/#secret",
        "wss://secret.example/#",
        "wss://secret.example/{secret}",
        "wss://secret.example/{server_identifier",
        "wss://secret.example/{{server_identifier}}",
        "wss://{server_identifier}.secret.example",
        "wss://secret.example\\@secret.example",
        "wss://secret.example/se cret",
        "wss://secret.example/se\ncret",
    ],
)
def test_an_invalid_url_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    message = problem(monkeypatch, ON | {"REMOTE_URL": url})
    assert (message.startswith("MCP_PROXY_REMOTE_URL: "), "secret" in message) == (True, False)


@pytest.mark.parametrize(
    "settings",
    [
        ON,
        ON | {"REMOTE_TOKEN": "", "REMOTE_TOKEN_FILE": "not-there-yet"},
        ON | {"REMOTE_URL": "ws://127.0.0.1:9000/ws"},
        ON | {"REMOTE_URL": "ws://localhost/ws?as={server_identifier}"},
        ON | {"REMOTE_URL": "ws://[::1]:9000"},
        ON | {"REMOTE_URL": "ws://backend/ws", "REMOTE_ALLOW_INSECURE": "true"},
        ON | {"REMOTE_DROP_GRACE_S": "0"},
        ON | {"REQUIRE_AGENT": "true", "REMOTE_AGENT": "reader"},
        ON | {"REQUIRE_AGENT": "false"},
    ],
    ids=range(9),
)
def test_valid_combinations_are_accepted(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    put(monkeypatch, settings)
    assert load_settings().remote_url == settings["REMOTE_URL"]


@each_row(
    ("name", "value"),
    [
        ("REMOTE_SERVER_IDENTIFIER", "gateway"),
        ("REMOTE_TOKEN", "secret"),
        ("REMOTE_TOKEN_FILE", "secret"),
        ("REMOTE_TENANT_ID", "acme"),
        ("REMOTE_AGENT", "reader"),
        ("REMOTE_DOCUMENTS", "handbook"),
        ("REMOTE_CA_FILE", __file__),
    ],
)
def test_settings_of_a_backend_are_refused_without_a_backend(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert problem(monkeypatch, {name: value}) == (
        f"MCP_PROXY_REMOTE_URL: is unset, so MCP_PROXY_{name} is not used; "
        f"set MCP_PROXY_REMOTE_URL, or unset MCP_PROXY_{name}"
    )


def test_the_error_for_a_backend_without_required_agent_names_both_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = problem(monkeypatch, ON | {"REQUIRE_AGENT": "true"})
    assert ("MCP_PROXY_REMOTE_AGENT: " in message, "MCP_PROXY_REQUIRE_AGENT" in message) == (
        True,
        True,
    )


def test_by_default_a_backend_is_not_dialled() -> None:
    assert Settings().remote_address is None


def test_the_address_contains_the_identifier_of_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, ON | {"REMOTE_SERVER_IDENTIFIER": "Gate.way-1"})
    assert load_settings().remote_address == "wss://secret.example/ws/Gate.way-1"


def test_an_address_without_a_placeholder_is_dialled_unchanged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, ON | {"REMOTE_URL": "wss://secret.example/a%20b?key=1"})
    assert load_settings().remote_address == "wss://secret.example/a%20b?key=1"


def test_the_default_identifier_is_derived_from_the_host_name() -> None:
    assert Settings().remote_identifier.startswith("mcp-tools-proxy-")


def test_a_file_of_certificate_authorities_is_accepted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.touch()
    put(monkeypatch, ON | {"REMOTE_CA_FILE": str(authorities)})
    assert load_settings().remote_ca_file == authorities


def test_the_token_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, ON | {"REMOTE_URL": "wss://backend.example"})
    assert "'secret'" not in repr(load_settings())


@each_row(
    ("value", "documents"),
    [
        ("", None),
        ("handbook, manual", {"handbook", "manual"}),
        ('["a, b"]', {"a, b"}),
        ("[]", set()),
        (",", set()),
    ],
)
def test_documents_are_a_list_that_can_be_empty(
    monkeypatch: pytest.MonkeyPatch, value: str, documents: set[str] | None
) -> None:
    put(monkeypatch, ON | {"REMOTE_DOCUMENTS": value})
    assert load_settings().remote_documents == documents


@each_row("value", ["a\tb", "x" * 257, ",".join(map(str, range(1001)))])
def test_invalid_document_ids_are_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert "MCP_PROXY_REMOTE_DOCUMENTS" in problem(monkeypatch, ON | {"REMOTE_DOCUMENTS": value})
