from ipaddress import ip_network

import pytest

from mcp_tools_proxy.domain.networks import ServerNetworks
from mcp_tools_proxy.domain.server import Isolation
from mcp_tools_proxy.downstream.connection import ConnectionFailure
from mcp_tools_proxy.downstream.mcp_client.dialer import Dialer
from tests.downstream.connections import config_of
from tests.support.configuration import Config
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import eventually, running

ELSEWHERE = ServerNetworks(networks=(ip_network("10.0.0.0/8"),))
HERE = ServerNetworks(networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
REASON = "the server's address is not allowed"


@pytest.mark.parametrize("isolation", [Isolation.SHARED, Isolation.USER])
@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_a_name_that_resolves_outside_the_networks_is_not_dialled(
    transport: str, isolation: Isolation
) -> None:
    async with running_raw(transport) as server:
        url = server.entry["url"].replace("127.0.0.1", "localhost")
        config = config_of({**server.entry, "url": url}, isolation=isolation)
        async with Dialer(ELSEWHERE) as dialer:
            with pytest.raises(ConnectionFailure, match=REASON):
                async with dialer.dial(config, lambda: None):
                    pass
        async with Dialer(HERE) as dialer, dialer.dial(config, lambda: None):
            pass


@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_only_addresses_in_the_networks_are_dialled_of_a_name_with_several(
    transport: str,
) -> None:
    only_ipv6 = ServerNetworks(networks=(ip_network("::1/128"),))
    async with running_raw(transport) as server:
        url = server.entry["url"].replace("127.0.0.1", "localhost")  # both 127.0.0.1 and ::1
        config = config_of({**server.entry, "url": url})
        async with Dialer(only_ipv6) as dialer:
            with pytest.raises(ConnectionFailure):
                async with dialer.dial(config, lambda: None):
                    pass
        async with Dialer(HERE) as dialer, dialer.dial(config, lambda: None):
            pass


@pytest.mark.parametrize("host", ["0xa9fea9fe", "169.254.169.254", "[::ffff:169.254.169.254]"])
@pytest.mark.parametrize(
    ("transport", "scheme"), [("streamable-http", "http"), ("sse", "http"), ("websocket", "ws")]
)
async def test_a_link_local_address_is_not_dialled(host: str, transport: str, scheme: str) -> None:
    config = config_of({"url": f"{scheme}://{host}:9/mcp", "transport": transport})
    async with Dialer() as dialer:
        with pytest.raises(ConnectionFailure, match=REASON):
            async with dialer.dial(config, lambda: None):
                pass


async def test_the_setting_reaches_the_servers_of_a_gateway() -> None:
    async with running_raw("http") as server:
        url = server.entry["url"].replace("127.0.0.1", "localhost")
        config = Config(servers={"s1": {**server.entry, "url": url}})
        async with running(config=config, server_networks=("10.0.0.0/8",)) as service:

            async def refused() -> bool:
                (found,) = (await service.get("/internal/mcp/servers"))["servers"]
                return "MCP_PROXY_SERVER_NETWORKS" in str(found.get("last_error"))

            await eventually(refused)


AUTH = {"type": "oauth", "grant": "client_credentials", "clientId": "c", "clientSecret": "s3cret"}


@pytest.mark.parametrize("issuer", ["http://localhost:{port}", "http://127.0.0.1:{port}/issuer"])
async def test_oauth_dials_no_server_or_issuer_outside_the_networks(issuer: str) -> None:
    requested: list[str] = []
    async with running_raw("http") as server:
        server.instead = lambda request: requested.append(request.path)
        url = server.entry["url"].replace("127.0.0.1", "localhost")
        auth = {**AUTH, "authorizationServer": issuer.format(port=server.port)}
        config = Config(servers={"s1": {**server.entry, "url": url, "auth": auth}})
        async with running(config=config, server_networks=("10.0.0.0/8",)) as service:

            async def refused() -> bool:
                (found,) = (await service.get("/internal/mcp/servers"))["servers"]
                return "is not allowed" in str(found.get("last_error"))

            await eventually(refused)
    assert requested == []
