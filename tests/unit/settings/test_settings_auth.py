import json

import pytest

from mcp_tools_proxy.settings.settings import Settings, SettingsError, load_settings
from tests.support.tables import each_row
from tests.unit.settings.environment import problem, put

TOKEN = {"AUTH_MODE": "token", "TOKENS_FILE": "secret.jsonl"}
JWT = {
    "AUTH_MODE": "jwt",
    "JWT_ISSUER": "https://secret.example",
    "JWT_AUDIENCE": "secret",
    "JWT_JWKS_URL": "https://secret.example/jwks",
}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"AUTH_MODE": "token"}, "TOKENS_FILE"),
        (TOKEN | {"TOKENS_FILE": " "}, "TOKENS_FILE"),
        (TOKEN | {"AUTH_MODE": "none"}, "AUTH_MODE"),
        (TOKEN | {"AUTH_MODE": "jwt"}, "AUTH_MODE"),
        (JWT | {"AUTH_MODE": "none"}, "AUTH_MODE"),
        (JWT | {"JWT_ISSUER": ""}, "JWT_ISSUER"),
        (JWT | {"JWT_AUDIENCE": ""}, "JWT_AUDIENCE"),
        (JWT | {"JWT_JWKS_URL": ""}, "JWT_JWKS_URL"),
        (JWT | {"JWT_JWKS_FILE": "secret.json"}, "JWT_JWKS_URL"),
        (JWT | {"JWT_JWKS_URL": "http://secret.example/jwks"}, "JWT_JWKS_URL"),
        (JWT | {"JWT_JWKS_URL": "http://localhost.secret.example/jwks"}, "JWT_JWKS_URL"),
        (JWT | {"JWT_JWKS_URL": "http://[secret"}, "JWT_JWKS_URL"),
    ],
)
def test_conflicting_settings_are_reported_in_one_line_with_a_variable(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], named: str
) -> None:
    message = problem(monkeypatch, settings)
    assert (message.startswith(f"MCP_PROXY_{named}: "), "\n" in message, "secret" in message) == (
        True,
        False,
        False,
    )


@pytest.mark.parametrize(
    "settings",
    [
        TOKEN,
        JWT,
        JWT | {"JWT_JWKS_URL": "", "JWT_JWKS_FILE": "keys.json"},
        JWT | {"JWT_JWKS_URL": "http://127.0.0.1:8000/jwks"},
        JWT | {"JWT_JWKS_URL": "http://idp/jwks", "JWT_ALLOW_HTTP": "true"},
        JWT | {"JWT_AUDIENCE": '["a", "b"]', "JWT_USER_CLAIM": ""},
    ],
    ids=range(6),
)
def test_valid_combinations_are_accepted(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    put(monkeypatch, settings)
    assert load_settings().auth_mode == settings["AUTH_MODE"]


@each_row(
    "hosts",
    [
        "https://a.example",
        "a.example/mcp",
        "*.example",
        "a.example b.example",
        "me@a.example",
        "::1",
        "a.example:0",
        "a.example:http",
        ":8082",
    ],
)
def test_an_invalid_host_is_refused(monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    put(monkeypatch, {"ALLOWED_HOSTS": f"good.example,{hosts}"})
    with pytest.raises(SettingsError, match=r"^MCP_PROXY_ALLOWED_HOSTS: should name hosts"):
        load_settings()


@each_row("host", ["*", "a.example", "A.example:8082", "10.0.0.1", "[::1]:8082"])
def test_a_valid_host_is_accepted(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    put(monkeypatch, {"ALLOWED_HOSTS": json.dumps([host])})
    assert load_settings().allowed_hosts == (host,)


def test_a_malformed_json_list_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, {"ALLOWED_HOSTS": "[a.example"})
    with pytest.raises(SettingsError, match="is not a JSON list"):
        load_settings()


def test_an_ipv6_address_is_not_read_as_a_json_list(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {"ALLOWED_HOSTS": "[::1]:8082, a.example"})
    assert load_settings().allowed_hosts == ("[::1]:8082", "a.example")


@each_row("network", ["10.0.0.1/8", "proxy.example", "10.0.0.0/33", "::g/64", "*"])
def test_an_invalid_network_is_refused_as_trusted_proxy(
    monkeypatch: pytest.MonkeyPatch, network: str
) -> None:
    put(monkeypatch, {"TRUSTED_PROXIES": f"10.0.0.0/8,{network}"})
    with pytest.raises(SettingsError, match=r"^MCP_PROXY_TRUSTED_PROXIES: should name networks"):
        load_settings()


def test_networks_and_single_addresses_can_be_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch, {"TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8,127.0.0.1"})
    assert load_settings().trusted_proxies == ("10.0.0.0/8", "fd00::/8", "127.0.0.1")


def test_a_weak_admin_token_is_refused_at_startup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(monkeypatch, {"ADMIN_TOKEN": "x" * 15})
    with pytest.raises(SettingsError, match=r"^MCP_PROXY_ADMIN_TOKEN: .* 16 .* openssl rand"):
        load_settings()
    put(monkeypatch, {"ADMIN_TOKEN": "x" * 16})
    assert load_settings().admin_token is not None


@each_row("keys", ["k" * 31, f"{'k' * 32},short"])
def test_weak_session_keys_are_refused_at_startup(
    monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("MCP_PROXY_SESSION_KEYS", keys)
    refusal = r"^MCP_PROXY_SESSION_KEYS.* at least 32 characters"
    with pytest.raises(SettingsError, match=refusal) as refused:
        load_settings()
    assert keys[-5:] not in str(refused.value)


def test_session_keys_are_read_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_PROXY_SESSION_KEYS", f"{'a' * 32}, {'b' * 40}")
    keys = [key.get_secret_value() for key in load_settings().session_keys]
    assert keys == ["a" * 32, "b" * 40]


@each_row("token", ["a b", "line\n", "ключ"])
def test_a_retrieval_token_invalid_in_a_header_is_refused_at_startup(
    monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("MCP_PROXY_RETRIEVAL_TOKEN", token)
    with pytest.raises(SettingsError, match="MCP_PROXY_RETRIEVAL_TOKEN"):
        load_settings()


SIGN_IN = JWT | {"JWT_AUDIENCE": "https://gw.example/mcp", "PUBLIC_URL": "https://gw.example/"}


@pytest.mark.parametrize(
    ("settings", "resource", "warned"),
    [
        (SIGN_IN, "https://gw.example/mcp", []),
        (SIGN_IN | {"JWT_AUDIENCE": "x,https://gw.example/mcp"}, "https://gw.example/mcp", []),
        (SIGN_IN | {"JWT_AUDIENCE": "https://gw.example/"}, None, ["MCP_PROXY_JWT_AUDIENCE"]),
        (JWT, None, []),
        (JWT | {"JWT_SCOPES": "tools"}, None, ["MCP_PROXY_JWT_SCOPES"]),
        ({"JWT_SCOPES": "tools"}, None, ["MCP_PROXY_JWT_SCOPES"]),
        ({"PUBLIC_URL": "https://gw.example"}, None, []),
    ],
)
def test_mcp_clients_can_sign_in_if_the_audience_is_the_public_url(
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, str],
    resource: str | None,
    warned: list[str],
) -> None:
    put(monkeypatch, settings)
    found = load_settings()
    assert (found.mcp_resource, [it.variable for it in found.warnings]) == (resource, warned)


@each_row("scopes", ["a b", 'a"b', "a\\b", "a,ü"])
def test_an_invalid_scope_is_refused(monkeypatch: pytest.MonkeyPatch, scopes: str) -> None:
    put(monkeypatch, {"JWT_SCOPES": scopes})
    with pytest.raises(SettingsError, match=r"^MCP_PROXY_JWT_SCOPES: should name scopes"):
        load_settings()


PAGES = {
    "auth_mode": "jwt",
    "jwt_issuer": "https://issuer.example",
    "jwt_audience": "us",
    "jwt_jwks_file": "keys",
    "credentials_key": "0123456789abcdef0123456789abcdef",
    "public_url": "https://gateway.example/tools/",
    "signin_client_id": "pages",
}


@each_row(
    ("changes", "url"),
    [
        ({}, "https://gateway.example/tools"),
        ({"public_url": "http://127.0.0.1:8082"}, "http://127.0.0.1:8082"),
        ({"public_url": "http://gateway.example"}, None),
        ({"public_url": None}, None),
        ({"credentials_key": ""}, None),
        ({"signin_client_id": ""}, None),
    ],
)
def test_sign_in_pages_exist_if_all_their_settings_are_set(
    changes: dict[str, object], url: str | None
) -> None:
    settings = Settings.model_validate({**PAGES, **changes})
    assert settings.pages_url == url
    warned = "MCP_PROXY_SIGNIN_CLIENT_ID" in {it.variable for it in settings.sign_in_warnings()}
    assert warned is (url is None and changes != {"signin_client_id": ""})


def test_the_client_secret_of_the_pages_is_not_shown() -> None:
    settings = Settings.model_validate({**PAGES, "signin_client_secret": "s1gn-in"})
    assert "s1gn-in" not in repr(settings)
