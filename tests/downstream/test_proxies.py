import asyncio
from contextlib import AsyncExitStack
from ipaddress import ip_network
from pathlib import Path

import pytest
from yarl import URL

from mcp_tools_proxy.config.entry_rules import NetworkSupport
from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.domain.networks import Proxies, Proxy, ServerNetworks
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
    Reach,
)
from mcp_tools_proxy.settings.settings import Settings
from tests.downstream.connections import config_of, dialled
from tests.e2e.check_command import check
from tests.support.configuration import Config, Json, make_preset
from tests.support.forward_proxy import running_proxy
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.remote_backend.certificates import certify
from tests.support.service import EXECUTE, request_of, running

ELSEWHERE = "192.0.2.10"
"""An address of no machine (RFC 5737), reachable only through the proxy of these tests."""
UNKNOWN = "notes.invalid"
REASON = "the server's address is not allowed"


def port_of(entry: Json) -> int:
    return URL(entry["url"]).port or 0


@pytest.mark.e2e
@pytest.mark.parametrize("host", [ELSEWHERE, UNKNOWN])
async def test_each_transport_goes_through_the_proxy_with_connect(
    tmp_path: Path, host: str
) -> None:
    certified = certify(tmp_path, host)
    entries: dict[str, Json] = {}
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(running_proxy())
        for transport in ("http", "sse", "ws"):
            running = running_raw(transport, tls=certified.tls)
            entry = (await stack.enter_async_context(running)).entry
            url = entry["url"].replace("127.0.0.1", host)
            entries[transport] = {**entry, "url": url, "headers": {"X-Key": "s3cret"}}
        Config(servers=entries, presets=[make_preset()]).write(tmp_path / "config")
        environment = {
            "SSL_CERT_FILE": str(certified.ca_file),
            "HTTPS_PROXY": proxy.url.replace("http://", "http://ana:pass@"),
        }
        code, out, _ = await asyncio.to_thread(check, environment=environment, fresh=True)
    assert (code, out.endswith("OK\n")) == (0, True)
    assert proxy.targets == {f"{host}:{port_of(it)}" for it in entries.values()}
    assert {line.split(" ")[0] for line in proxy.requests} == {"CONNECT"}
    assert all("Basic YW5hOnBhc3M=" in it for it in proxy.headers)
    assert not any("s3cret" in it for it in proxy.headers)


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_http_goes_through_a_proxy_without_credentials(transport: str) -> None:
    async with running_proxy() as proxy, running_raw(transport) as server:
        url = server.entry["url"].replace("127.0.0.1", UNKNOWN)
        entry = {**server.entry, "url": url}
        async with dialled(entry, proxy=Proxy(url=proxy.url)) as line:
            assert await line.call("echo", text="hello")
        assert all(it.startswith(f"http://{UNKNOWN}:") for it in proxy.targets)


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "0xa9fea9fe", "[::ffff:169.254.169.254]", "100.100.100.200"),
        *("metadata.google.internal", "metadata", "metadata.google.internal."),
    ],
)
@pytest.mark.parametrize(
    ("transport", "scheme"), [("streamable-http", "http"), ("sse", "https"), ("websocket", "wss")]
)
async def test_a_proxy_is_never_asked_for_a_forbidden_address(
    host: str, transport: str, scheme: str
) -> None:
    async with running_proxy() as proxy, Dialer() as dialer:
        entry = {"url": f"{scheme}://{host}:9/mcp", "transport": transport}
        config = config_of(entry, proxy=Proxy(url=proxy.url))
        with pytest.raises(ConnectionFailure, match=REASON):
            async with dialer.dial(config, lambda: None):
                pass
    assert proxy.requests == []


@pytest.mark.parametrize("host", [ELSEWHERE, UNKNOWN, "localhost", "127.0.0.1", "2130706433"])
async def test_a_target_outside_the_networks_is_not_requested_from_a_proxy(host: str) -> None:
    networks = ServerNetworks(networks=(ip_network("10.0.0.0/8"),))
    async with running_proxy() as proxy, Dialer(networks) as dialer:
        entry = {"url": f"https://{host}:9/mcp", "transport": "http"}
        config = config_of(entry, proxy=Proxy(url=proxy.url))
        with pytest.raises(ConnectionFailure, match=REASON):
            async with dialer.dial(config, lambda: None):
                pass
    assert proxy.requests == []


async def test_an_entrys_proxy_must_be_in_the_networks_but_the_environments_need_not() -> None:
    networks = ServerNetworks(networks=(ip_network("192.0.2.0/24"),))
    async with running_proxy() as proxy, running_raw("http") as server, Dialer(networks) as dialer:
        url = server.entry["url"].replace("127.0.0.1", ELSEWHERE)
        entry = {**server.entry, "url": url}
        own = config_of(entry, proxy=Proxy(url=proxy.url, is_own=True))
        with pytest.raises(ConnectionFailure, match=REASON):
            async with dialer.dial(own, lambda: None):
                pass
        assert proxy.requests == []
        config = config_of(entry, proxy=Proxy(url=proxy.url))
        async with dialer.dial(config, lambda: None):
            pass
        assert proxy.requests


@pytest.mark.parametrize(
    ("status", "words"), [(407, "user and password"), (403, "not allow"), (502, "cannot reach")]
)
async def test_a_proxys_refusal_is_reported(status: int, words: str) -> None:
    async with running_proxy(status) as proxy:
        entry = {"url": f"https://{UNKNOWN}/mcp", "transport": "http"}
        with pytest.raises(ConnectionFailure, match=f"{status}: .*{words}") as caught:
            async with dialled(entry, proxy=Proxy(url=proxy.url)):
                pass
    assert not caught.value.sent


async def test_an_unreachable_proxy_is_reported() -> None:
    entry = {"url": f"https://{UNKNOWN}/mcp", "transport": "http"}
    with pytest.raises(ConnectionFailure, match="its proxy cannot be reached: connection refused"):
        async with dialled(entry, proxy=Proxy(url="http://127.0.0.1:9")):
            pass


async def test_an_issuer_named_by_the_operator_is_reached_through_the_proxy() -> None:
    async with running_proxy(502) as proxy:
        web = OAuthWeb(proxies=Proxies(https=proxy.url))
        try:
            with pytest.raises(IssuerUnavailable, match="through the proxy") as caught:
                await web.get(URL(f"https://{UNKNOWN}/x"), Reach(private=True), {})
            assert not caught.value.may_have_worked
            assert proxy.targets == {f"{UNKNOWN}:443"}
            proxy.requests.clear()
            for host in (UNKNOWN, "10.0.0.1", "169.254.169.254", "metadata.google.internal"):
                with pytest.raises(OAuthRefused):  # a server named it, so it must be public
                    await web.get(URL(f"https://{host}/x"), Reach(), {})
            assert proxy.requests == []
        finally:
            await web.close()


PROXIES = Proxies.of(
    {
        "HTTPS_PROXY": "http://secure:1",
        "HTTP_PROXY": "plain:2",
        "NO_PROXY": "corp.example, .svc,10.0.0.0/8,host:8443,[2001:db8::1],*.wild.example",
    }
)


@pytest.mark.parametrize(
    ("url", "own", "found"),
    [
        ("https://a.example/mcp", None, "http://secure:1"),
        ("wss://a.example/mcp", None, "http://secure:1"),
        ("http://a.example/mcp", None, "http://plain:2"),
        ("WS://a.example/mcp", None, "http://plain:2"),
        ("https://corp.example", None, None),
        ("https://a.CORP.example.", None, None),
        ("https://acorp.example", None, "http://secure:1"),
        ("https://notes.svc:8080", None, None),
        ("https://10.1.2.3", None, None),
        ("https://11.1.2.3", None, "http://secure:1"),
        ("https://host:8443", None, None),
        ("https://host", None, "http://secure:1"),
        ("https://[2001:db8::1]", None, None),
        ("https://x.wild.example", None, None),
        ("https://a.example", "http://own:3", "http://own:3"),
        ("https://corp.example", "http://own:3", "http://own:3"),
        ("https://a.example", "none", None),
        *(
            (f"https://{host}", own, None)
            for own in (None, "http://own:3")
            for host in (
                *("localhost", "a.localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]"),
                *("2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "[::]"),
            )
        ),
    ],
)
def test_the_proxy_of_a_url(url: str, own: str | None, found: str | None) -> None:
    proxy = PROXIES.find(url, own)
    assert (None if proxy is None else proxy.url) == found


def test_lower_case_variables_override_upper_case_ones_and_a_star_excludes_all() -> None:
    proxies = Proxies.of({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:1"})
    assert proxies.find("https://x.example") == Proxy(url="http://a:1")
    assert Proxies.of({"HTTPS_PROXY": "http://a:1", "no_proxy": "*"}).find("https://x") is None


@pytest.mark.parametrize(
    ("entry", "place"),
    [
        ({"url": "http://a.example", "headers": {"Authorization": "x"}}, "url"),
        ({"url": "ws://a.example", "headers": {"X-Key": "x"}, "proxy": "http://own:3"}, "url"),
        ({"url": "http://ana:pass@a.example"}, "url"),
        ({"url": "http://a.example", "headers": {"X-Key": "x"}, "proxy": "none"}, None),
        ({"url": "http://b.corp.example", "headers": {"X-Key": "x"}}, None),
        ({"url": "http://localhost", "headers": {"X-Key": "x"}}, None),
        ({"url": "http://a.example"}, None),
        ({"url": "https://a.example", "headers": {"X-Key": "x"}}, None),
        ({"url": "https://a.example", "proxy": "socks5://own:3"}, "proxy"),
        ({"url": "https://a.example", "proxy": "own:3"}, "proxy"),
        ({"url": "https://a.example", "proxy": ""}, "proxy"),
        ({"url": "https://a.example", "proxy": "${N45_UNSET}"}, "proxy"),
        ({"url": "https://a.example", "proxy": "http://169.254.169.254:80"}, "proxy"),
    ],
)
def test_allowed_and_forbidden_targets_of_a_proxy(
    tmp_path: Path, entry: Json, place: str | None
) -> None:
    Config(servers={"s": entry}).write(tmp_path)
    configuration = load_configuration(
        tmp_path,
        {},
        call_timeout_s=60,
        max_result_bytes=1_000,
        network=NetworkSupport(proxies=PROXIES),
    )
    places = [problem.path for problem in configuration.invalid.get("s", ())]
    assert places == ([] if place is None else [f"$.mcpServers.s.{place}"])


def test_an_unusable_proxy_of_the_environment_is_named(tmp_path: Path) -> None:
    Config(servers={"s": {"url": "https://a.example"}}).write(tmp_path)
    proxies = Proxies.of({"HTTPS_PROXY": "socks5://a:1"})
    configuration = load_configuration(
        tmp_path,
        {},
        call_timeout_s=60,
        max_result_bytes=1_000,
        network=NetworkSupport(proxies=proxies),
    )
    (problem,) = configuration.invalid["s"]
    assert "HTTPS_PROXY" in problem.message


async def test_every_stdio_server_gets_the_variables_of_the_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALLER_CA", "/ca.pem")
    monkeypatch.setenv("CALLER_OWN", "of the gateway")
    monkeypatch.setenv("CALLER_OTHER", "not named")
    entry = raw_entry()
    servers = {"s1": entry, "s2": {**entry, "env": {**entry.get("env", {}), "CALLER_OWN": "own"}}}
    names = ("CALLER_CA", "CALLER_OWN", "CALLER_UNSET")
    preset = make_preset("p", tools=[(server, "witness") for server in servers])
    config = Config(servers=servers, presets=[preset])
    async with running(config=config, preset="p", stdio_env=names) as service:
        seen = {}
        for server in servers:
            body = request_of(f"{server}:witness")
            answer = (await service.http.post(EXECUTE, json=body)).json()
            seen[server] = str(answer)
    assert "/ca.pem" in seen["s1"]
    assert "/ca.pem" in seen["s2"]
    assert "of the gateway" in seen["s1"]
    assert "of the gateway" not in seen["s2"]
    assert not any("not named" in it for it in seen.values())


@pytest.mark.parametrize("name", ["MCP_PROXY_STATE_KEY", "mcp_proxy_x", "A=B"])
def test_a_setting_of_the_gateway_is_never_passed_on(name: str) -> None:
    with pytest.raises(ValueError, match="remove it"):
        Settings.model_validate({"stdio_env": (name,)})
