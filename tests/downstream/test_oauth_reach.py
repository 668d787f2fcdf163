import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network

import pytest
from aiohttp import web
from yarl import URL

from mcp_tools_proxy.domain.networks import ServerNetworks
from mcp_tools_proxy.downstream.oauth.discovery import (
    MAX_SCOPES,
    Challenge,
    contains,
    read_challenge,
)
from mcp_tools_proxy.downstream.oauth.oauth_web import (
    MAX_BYTES,
    IssuerUnavailable,
    OAuthRefused,
    OAuthWeb,
    Reach,
    Zone,
    reach_of,
    zone_of,
)
from tests.support.bounds import BOUND_S
from tests.support.held_port import free_port
from tests.support.web_app import serving_app

LOCAL = Reach(loopback=True)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.mark.parametrize(
    ("zone", "addresses"),
    [
        (Zone.PUBLIC, ("8.8.8.8", "2001:4860:4860::8888")),
        (
            Zone.PRIVATE,
            ("10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "fec0::1"),
        ),
        (Zone.LOOPBACK, ("127.0.0.1", "127.9.9.9", "::1")),
        (
            Zone.FORBIDDEN,
            (
                *("169.254.169.254", "169.254.1.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254"),
                *("100.100.100.200", "168.63.129.16", "::", "224.0.0.1", "ff02::1"),
                *("255.255.255.255", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"),
                *("::ffff:0:127.0.0.1", "fd20:ce::254", "192.0.0.192"),
                *("0.0.0.0", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:0:1::", "nonsense"),  # noqa: S104 - not bound to
            ),
        ),
    ],
)
def test_each_address_belongs_to_one_zone(zone: Zone, addresses: tuple[str, ...]) -> None:
    assert {address: zone_of(address) for address in addresses} == dict.fromkeys(addresses, zone)


@pytest.mark.parametrize(
    ("url", "server", "reach"),
    [
        ("https://issuer.example/x", "https://server.example/mcp", Reach()),
        ("https://server.example/x", "https://server.example/mcp", Reach(private=True)),
        ("https://server.example:8443/x", "https://server.example/mcp", Reach()),
        ("https://issuer.example/x", "http://127.0.0.1:1/mcp", Reach(loopback=True)),
        ("https://issuer.example/x", "http://localhost:1/mcp", Reach(loopback=True)),
        ("https://own.example/x", "https://server.example/mcp", Reach(True, True)),
    ],
)
def test_the_operator_or_the_servers_own_address_allows_the_internal_network(
    url: str, server: str, reach: Reach
) -> None:
    configured = frozenset({URL("https://own.example")})
    assert reach_of(URL(url), URL(server), configured) == reach


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/x",
        "ftp://127.0.0.1/x",
        "http://user:pass@127.0.0.1/x",
        "https://10.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::ffff:127.0.0.1]/x",
    ],
)
async def test_forbidden_addresses_are_refused(url: str) -> None:
    oauth_web = OAuthWeb()
    with pytest.raises(OAuthRefused):
        await oauth_web.get(URL(url), LOCAL, {})
    await oauth_web.close()


async def test_a_name_is_checked_by_the_dialled_address() -> None:
    async with answering(answers("{}")) as url:
        oauth_web = OAuthWeb()
        named = url.with_host("localhost")
        assert (await oauth_web.get(named, LOCAL, {})).status == 200
        with pytest.raises(OAuthRefused, match="is not allowed"):
            await oauth_web.get(named.with_scheme("https"), Reach(private=True), {})
        await oauth_web.close()


async def test_the_issuer_of_a_setting_may_be_outside_the_networks_of_servers() -> None:
    elsewhere = ServerNetworks(networks=(ip_network("10.0.0.0/8"),))
    async with answering(answers("{}")) as url:
        servers_web = OAuthWeb(networks=elsewhere)
        with pytest.raises(OAuthRefused, match="is not allowed"):
            await servers_web.get(url.with_host("localhost"), LOCAL, {})
        own_web = OAuthWeb(networks=elsewhere, own_issuer=f"http://localhost:{url.port}/realm")
        assert (await own_web.get(url.with_host("localhost"), LOCAL, {})).status == 200
        await servers_web.close()
        await own_web.close()


def answers(text: str = "", status: int = 200, **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=text.encode(), status=status, headers=headers)

    return answer


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[URL]:
    app = web.Application()
    app.router.add_get("/", handler)
    async with serving_app(app) as url:
        yield URL(f"{url}/")


async def test_a_redirect_is_an_error_and_is_not_followed() -> None:
    async with answering(answers(status=307, Location="http://127.0.0.1:1/")) as url:
        oauth_web = OAuthWeb()
        answer = await oauth_web.get(url, LOCAL, {})
        await oauth_web.close()
    assert (answer.status, answer.content) == (307, None)


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (answers("x" * (MAX_BYTES + 1)), OAuthRefused),
        (hang, IssuerUnavailable),
    ],
    ids=["too large", "silent"],
)
async def test_endless_or_oversized_issuer_responses_are_aborted(
    handler: Handler, error: type[Exception]
) -> None:
    async with answering(handler) as url:
        oauth_web = OAuthWeb(timeout_s=0.5)
        with pytest.raises(error):
            await oauth_web.get(url, LOCAL, {})
        await oauth_web.close()


async def cut_off(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (hang, "did not answer in time"),
        (cut_off, "closed the connection before its answer was complete"),
        (None, "cannot be reached: the connection was refused or failed"),
    ],
)
async def test_operators_see_the_fault_of_an_issuer(handler: Handler | None, problem: str) -> None:
    async with answering(handler or hang) as url:
        address = url if handler else URL(f"http://127.0.0.1:{free_port()}/")
        oauth_web = OAuthWeb(timeout_s=0.5 if handler is hang else BOUND_S)
        with pytest.raises(IssuerUnavailable) as failed:
            await oauth_web.get(address, LOCAL, {})
        await oauth_web.close()
    assert str(failed.value) == f"{address.origin()} {problem}"


@pytest.mark.parametrize("text", ["", "[", "\ud7ff", "<html>", "NaN"])
async def test_invalid_json_counts_as_no_answer(text: str) -> None:
    async with answering(answers(text)) as url:
        oauth_web = OAuthWeb()
        answer = await oauth_web.get(url, LOCAL, {})
        await oauth_web.close()
    assert not isinstance(answer.content, dict)


@pytest.mark.parametrize(
    ("resource", "address", "holds"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", True),
        ("https://a.example", "https://a.example/mcp", True),
        ("https://a.example/", "https://a.example/mcp", True),
        ("https://a.example/mcp/", "https://a.example/mcp", True),
        ("https://a.example/mc", "https://a.example/mcp", False),
        ("https://a.example/mcp/below", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://b.example/mcp", "https://a.example/mcp", False),
        ("https://a.example/mcp?x=1", "https://a.example/mcp", False),
        ("https://b.example@a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example/b/../mcp", "https://a.example/mcp", False),
        ("https://a.example/b/%2e%2E/mcp", "https://a.example/mcp", False),
    ],
)
def test_a_resource_is_the_server_or_a_parent_of_it(
    resource: str, address: str, holds: bool
) -> None:
    assert contains(resource, address) is holds


@pytest.mark.parametrize("text", ["\t", "\n", "\x1b[2J", "\\", " ", "\u00fc", "\u202e", '"', "<"])
def test_an_address_may_contain_only_valid_characters(text: str) -> None:
    with pytest.raises(OAuthRefused):
        contains(f"https://a.example/{text}mcp", "https://a.example/mcp")


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ([], None),
        (["Basic realm=x"], None),
        (["Bearer"], Challenge()),
        (["bearer"], Challenge()),
        (['Bearer error="invalid_token"'], Challenge("invalid_token")),
        (['Basic realm="x", Bearer scope="a b a"'], Challenge(scopes=("a", "b"))),
        (["Basic x", 'Bearer resource_metadata="https://x/y"'], Challenge("", None, "https://x/y")),
        (['Bearer error=insufficient_scope, scope=""'], Challenge("insufficient_scope", ())),
        (['Bearer realm="a\\"b, scope=evil", scope="good"'], Challenge(scopes=("good",))),
        (["BearerX scope=a"], None),
        (['Bearer scope="a \x1b[2J \u00fc b"'], Challenge(scopes=("a", "b"))),
        ([f'Bearer scope="{"x" * 257} a"'], Challenge(scopes=("a",))),
        (
            [f'Bearer scope="{" ".join(map(str, range(200)))}"'],
            Challenge(scopes=tuple(map(str, range(MAX_SCOPES)))),
        ),
    ],
)
def test_a_challenge_is_parsed_exactly(headers: list[str], challenge: Challenge | None) -> None:
    assert read_challenge(headers) == challenge


def test_a_challenge_is_parsed_in_linear_time() -> None:
    """Each took a second and blocked the event loop; this number would exceed a test's limit."""
    header = f"Bearer {'a' * 8000}"
    assert {read_challenge([header]) for _ in range(1000)} == {Challenge()}
    assert read_challenge([f"Bearer {'a' * 4000}{' ' * 4000}"]) == Challenge()
