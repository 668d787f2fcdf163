"""``GET /`` in a browser, and HEAD of it and of the health checks."""

import pytest

from mcp_tools_proxy.gateway.lifecycle import Phase
from mcp_tools_proxy.wire.version import VERSION
from tests.support.mcp_endpoint import serving
from tests.support.service import running
from tests.support.tokens import token_settings

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
PATHS = ("/", "/health", "/health/ready")


@pytest.mark.parametrize("accept", ["text/html", BROWSER["Accept"], "*/*", "TEXT/*"])
async def test_a_browser_shows_the_landing_page(accept: str) -> None:
    async with running(app_name="<tools & more>") as service:
        page = await service.http.get("/", headers={"Accept": accept})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    for text in (VERSION, ">ready<", 'href="openapi.json"', "&lt;tools &amp; more&gt;"):
        assert text in page.text
    assert "<tools" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


async def test_the_page_shows_the_current_health() -> None:
    async with running() as service:
        service.gateway.lifecycle.phase = Phase.STOPPING
        page = await service.http.get("/", headers=BROWSER)
    assert ">stopping<" in page.text


@pytest.mark.parametrize("accept", ["application/json", "image/png, application/*"])
async def test_a_client_that_does_not_accept_html_gets_the_envelope(accept: str) -> None:
    async with running() as service:
        answer = await service.http.get("/", headers={"Accept": accept})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_with_the_console_the_address_redirects_to_it() -> None:
    async with running(console=True, admin_token="an-admin-token-of-16") as service:
        answers = [await service.http.request(it, "/", headers=BROWSER) for it in ("GET", "HEAD")]
    assert [(it.status_code, it.headers["location"]) for it in answers] == [(303, "/console")] * 2


@pytest.mark.parametrize("path", PATHS)
async def test_head_is_answered_like_get_without_a_body(path: str) -> None:
    async with serving() as served:
        shown = await served.http.get(path)
        head = await served.http.head(path)
    assert (head.status_code, head.content) == (shown.status_code, b"") == (200, b"")
    assert head.headers["content-type"] == shown.headers["content-type"]


@pytest.mark.parametrize("path", PATHS)
async def test_head_needs_no_token(path: str) -> None:
    async with running(**token_settings()) as service:
        assert (await service.http.head(path)).status_code == 200


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.STOPPING])
async def test_head_of_readiness_is_503_while_not_serving(phase: Phase) -> None:
    async with running() as service:
        service.gateway.lifecycle.phase = phase
        found = [(await service.http.head(it)).status_code for it in PATHS[1:]]
    assert found == [200, 503]


@pytest.mark.parametrize(("path", "method"), [("/", "POST"), ("/health", "POST")])
async def test_another_method_is_refused(path: str, method: str) -> None:
    async with running() as service:
        answer = await service.http.request(method, path)
    assert answer.json()["error"]["code"] == "METHOD_NOT_ALLOWED"
    assert answer.headers["allow"] == "GET, HEAD"
