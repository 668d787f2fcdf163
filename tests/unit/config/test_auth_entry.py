from pathlib import Path

from mcp_tools_proxy.config.auth_rules import OAuthSupport
from mcp_tools_proxy.config.entry_rules import IdentitySupport
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.configuration import Configuration
from mcp_tools_proxy.domain.server import Grant, LoginFor, OAuthClient, ServerAuth
from tests.support.configuration import Json
from tests.support.tables import each_row
from tests.unit.config.load_files import write_json

ISSUER = "https://login.example"
ALL = IdentitySupport(
    has_secrets=True,
    oauth=OAuthSupport(jwt_issuer="https://idp.example", proves_users=True, keeps_logins=True),
)
URL: Json = {"url": "https://server.example/mcp"}
CLIENT: Json = {"clientId": "a", "clientSecret": "b"}
MACHINE: Json = {"grant": "client_credentials", **CLIENT, "authorizationServer": ISSUER}
EXCHANGE: Json = {"grant": "token_exchange", "for": "user", "clientId": "a"}
ID_JAG: Json = {**EXCHANGE, "grant": "id_jag", "authorizationServer": ISSUER, "idp": CLIENT}
SECRET = "${secret:${caller.tenant_id}/x}"
DISCOVERY: Json = {"discovery": {"grant": "client_credentials", **CLIENT}}
OF_TENANT: Json = {**MACHINE, "for": "tenant", "clientId": SECRET, "clientSecret": SECRET}


def loaded(
    folder: Path, auth: Json, support: IdentitySupport = ALL, **entry: object
) -> Configuration:
    content = {**URL, "auth": {"type": "oauth", **auth}, **entry}
    write_json(folder, "mcp.json", {"mcpServers": {"s": content}})
    return load_configuration(
        folder, {}, call_timeout_s=60, max_result_bytes=1000, identity=support
    )


def places(configuration: Configuration) -> set[str]:
    found = configuration.invalid.get("s", ())
    return {it.path.removeprefix("$.mcpServers.s").lstrip(".") for it in found}


@each_row(
    ("auth", "isolation"),
    [
        ({}, "shared"),
        ({"for": "tenant"}, "tenant"),
        ({"for": "tenant"}, "user"),
        ({"for": "user"}, "user"),
        ({**CLIENT, "authorizationServer": ISSUER}, "shared"),
        (MACHINE, "shared"),
        (OF_TENANT, "tenant"),
        (EXCHANGE, "user"),
        (ID_JAG, "user"),
        ({**ID_JAG, "subjectTokenType": "id_token"}, "user"),
        ({**EXCHANGE, "subjectTokenType": "jwt"}, "user"),
        ({"redirectUri": "http://127.0.0.1:8765/oauth/callback"}, "shared"),
        ({"clientIdMetadataUrl": "https://us.example/client.json"}, "shared"),
    ],
)
def test_valid_combinations_are_accepted(tmp_path: Path, auth: Json, isolation: str) -> None:
    configuration = loaded(tmp_path, auth, isolation=isolation)
    assert places(configuration) == set()
    assert configuration.servers["s"].auth is not None


@each_row(
    ("auth", "isolation", "place"),
    [
        ({"for": "user"}, "tenant", "auth.for"),
        ({"for": "tenant"}, "shared", "auth.for"),
        ({**EXCHANGE, "for": "tenant"}, "user", "auth.for"),
        ({"grant": "token_exchange", "clientId": "a"}, "user", "auth.for"),
        ({**MACHINE, "for": "user"}, "user", "auth.for"),
        ({**MACHINE, "for": "tenant"}, "tenant", "auth.clientId"),
        ({**OF_TENANT, "clientSecret": "one"}, "tenant", "auth.clientSecret"),
        ({**OF_TENANT, "for": "deployment"}, "tenant", "auth.clientId"),
        ({"grant": "client_credentials", **CLIENT}, "shared", "auth.authorizationServer"),
        (CLIENT, "shared", "auth.authorizationServer"),
        ({**MACHINE, "clientSecret": None}, "shared", "auth.clientSecret"),
        ({**ID_JAG, "idp": None}, "user", "auth.idp"),
        ({**EXCHANGE, "idp": CLIENT}, "user", "auth.idp"),
        ({**EXCHANGE, "authorizationServer": ISSUER}, "user", "auth.authorizationServer"),
        ({"redirectUri": "https://us.example/callback"}, "shared", "auth.redirectUri"),
        ({"clientIdMetadataUrl": "https://us.example"}, "shared", "auth.clientIdMetadataUrl"),
        ({"clientSecret": "b"}, "shared", "auth.clientSecret"),
        ({"scope": ["read"]}, "shared", "auth.scope"),
        (
            {**MACHINE, "authorizationServer": "http://login.example"},
            "shared",
            "auth.authorizationServer",
        ),
        ({"scopes": ["a b"]}, "shared", "auth.scopes[0]"),
        ({"grant": "password"}, "shared", "auth.grant"),
        ({"type": "basic"}, "shared", "auth.type"),
        ({**MACHINE, "subjectTokenType": "jwt"}, "shared", "auth.subjectTokenType"),
        ({**EXCHANGE, "subjectTokenType": "saml2"}, "user", "auth.subjectTokenType"),
        ({**MACHINE, "pkce": "S256"}, "shared", "auth.pkce"),
        ({"pkce": "plain"}, "shared", "auth.pkce"),
        ({"pkce": True}, "shared", "auth.pkce"),
        (DISCOVERY, "shared", "auth.discovery"),
        ({**DISCOVERY, "for": "user"}, "user", "auth.authorizationServer"),
    ],
)
def test_invalid_combinations_are_reported(
    tmp_path: Path, auth: Json, isolation: str, place: str
) -> None:
    assert place in places(loaded(tmp_path, auth, isolation=isolation))


@each_row(
    ("auth", "message"),
    [
        ({"scope": ["read"]}, 'is not a known key; did you mean "scopes"?'),
        ({"client_id": "a"}, 'is not a known key; did you mean "clientId"?'),
        ({"redirectUrl": "http://127.0.0.1/"}, 'is not a known key; did you mean "redirectUri"?'),
        ({"issuer": ISSUER}, 'is not a known key; did you mean "authorizationServer"?'),
        ({"zzz": 1}, "is not a known key; remove it"),
        ({"scopes": "read"}, "should be a JSON list"),
        ({"idp": {"clientId": "a", "client_secret": "b"}}, 'did you mean "clientSecret"?'),
    ],
)
def test_a_misspelt_key_is_reported_with_the_correct_one(
    tmp_path: Path, auth: Json, message: str
) -> None:
    (problem,) = loaded(tmp_path, auth).invalid["s"]
    assert problem.message.endswith(message)


def test_keys_disabled_by_the_settings_are_reported(tmp_path: Path) -> None:
    nothing = IdentitySupport(has_secrets=True)
    assert places(loaded(tmp_path, {}, nothing)) == {"auth.grant"}
    assert places(loaded(tmp_path, EXCHANGE, nothing, isolation="user")) == {"auth.for"}
    assert places(loaded(tmp_path, MACHINE, nothing)) == set()


def test_a_header_of_the_entry_turns_oauth_off_as_in_broxy(tmp_path: Path) -> None:
    headers = {"authorization": "Bearer x"}
    off = loaded(tmp_path, {}, headers=headers)
    assert off.servers["s"].auth is None
    assert [it.path for it in off.warnings] == ["$.mcpServers.s.auth"]
    assert places(loaded(tmp_path, MACHINE, headers=headers)) == {"headers"}


@each_row("off", [{"enabled": False}, {"disabled": True}])
def test_a_disabled_server_can_lack_its_variables(tmp_path: Path, off: Json) -> None:
    client = {"clientId": "${TOOLS_ID}", "clientSecret": "${TOOLS_SECRET}"}
    auth = {**ID_JAG, **client, "idp": client}
    missing = loaded(tmp_path, auth, isolation="user", **off)
    assert places(missing) == set()
    keys = ("auth.clientId", "auth.clientSecret", "auth.idp.clientId", "auth.idp.clientSecret")
    warnings = [(it.path.removeprefix("$.mcpServers.s."), it.message) for it in missing.warnings]
    assert [place for place, _ in warnings] == list(keys[:2])
    for (_, message), name, other in zip(
        warnings, ("TOOLS_ID", "TOOLS_SECRET"), keys[2:], strict=True
    ):
        assert f"needs {name} from the gateway's environment" in message
        assert f"also at $.mcpServers.s.{other}" in message
    assert places(loaded(tmp_path, auth, isolation="user")) == set(keys)


def test_problems_in_auth_of_a_disabled_server_have_a_path(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"scopes": ["a b"]}, disabled=True)
    assert places(found) == {"auth.scopes[0]"}


def test_auth_is_refused_for_a_stdio_server(tmp_path: Path) -> None:
    assert places(loaded(tmp_path, MACHINE, url=None, command="x")) == {"auth"}


def test_an_entry_of_broxy_is_accepted_unchanged(tmp_path: Path) -> None:
    auth = {
        "clientName": "us",
        "authorizationServer": ISSUER,
        "scopes": ["b", "a", "b"],
        "tokenEndpointAuthMethod": "client_secret_post",
        "allowDynamicRegistration": False,
    }
    assert loaded(tmp_path, auth).servers["s"].auth == ServerAuth(
        grant=Grant.AUTHORIZATION_CODE,
        login_for=LoginFor.DEPLOYMENT,
        client=OAuthClient(
            name="us", token_endpoint_auth_method="client_secret_post", may_register=False
        ),
        issuer=ISSUER,
        scopes=("b", "a"),
    )


def test_tokens_are_exchanged_at_the_issuer_of_callers(tmp_path: Path) -> None:
    auth = loaded(tmp_path, {**EXCHANGE, **DISCOVERY}, isolation="user").servers["s"].auth
    assert auth is not None
    assert auth.subject_token_type == "access_token"
    assert auth.discovery is not None
    assert [it.issuer for it in (auth, auth.discovery)] == ["https://idp.example"] * 2
