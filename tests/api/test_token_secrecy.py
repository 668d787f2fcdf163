"""A caller's token is never forwarded (other gateways: token passthrough)."""

import json

import pytest

from tests.support.captured_logs import capture_logs
from tests.support.configuration import Config, make_preset
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.service import EXECUTE, READY, Service, running
from tests.support.tokens import MODES, bearer


async def use(service: Service, tool: str, headers: dict[str, str]) -> str:
    body = {"tool_name": tool, "user": {"user_id": "hush-user"}}
    response = await service.http.post(EXECUTE, json=body, headers=headers)
    assert response.json()["status"] == "ok", response.text
    return response.text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["http", "sse", "ws"])
async def test_a_server_receives_neither_token_nor_caller(mode: str, transport: str) -> None:
    settings, mint = MODES[mode]
    token = mint(tenant="hush-tenant")
    async with running_raw(transport=transport) as server:
        config = Config(
            servers={"s": server.entry},
            presets=[make_preset(tools=[("s", "headers"), ("s", "meta")])],
        )
        async with running(config=config, **settings()) as service:
            headers = bearer(token) | {"X-Tenant-Id": "hush-tenant", "Cookie": "hush"}
            got = [await use(service, f"s:{tool}", headers) for tool in ("headers", "meta")]
    assert (token in str(got), "hush" in str(got), "authorization" in str(got).lower()) == (
        False,
        False,
        False,
    )


@pytest.mark.parametrize("mode", MODES)
async def test_no_log_line_metric_or_error_contains_a_token(mode: str) -> None:
    settings, mint = MODES[mode]
    good = mint(user="u")
    tokens = [good, good[:-4] + "AAAA", "mtp_" + "h" * 43, "eyJhbGciOiJub25lIn0.e30."]
    with capture_logs() as lines:
        async with running(**settings()) as service:
            answers = [
                (
                    await service.http.post(
                        EXECUTE, json={"tool_name": name, **more}, headers=bearer(token)
                    )
                ).text
                for token in tokens
                for name in ("list_available_tools", "nope")
                for more in ({}, {"user": {"tenant_id": "rival"}}, {"user": 1})
            ]
            answers += [(await service.http.get(path)).text for path in ("/metrics", READY)]
    everything = json.dumps([lines, answers], default=repr)
    assert [token for token in tokens if token in everything or token[-20:] in everything] == []
