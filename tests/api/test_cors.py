"""Web pages of allowed origins can send requests and read the answers; others cannot."""

import pytest

from tests.support.service import TOOLS, running

PAGE = "https://app.example.com"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "mcp-session-id",
}


@pytest.mark.parametrize("path", ["/mcp", TOOLS])
async def test_a_page_of_an_allowed_origin_can_send_requests(path: str) -> None:
    async with running(allowed_origins=PAGE) as service:
        response = await service.http.options(path, headers={"Origin": PAGE, **PREFLIGHT})
    assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, PAGE)


async def test_a_page_of_an_allowed_origin_can_read_the_answer_and_its_session() -> None:
    async with running(allowed_origins=PAGE) as service:
        response = await service.http.get(TOOLS, headers={"Origin": PAGE})
    answered = response.headers
    assert response.status_code == 200
    assert answered["access-control-allow-origin"] == PAGE
    assert "Mcp-Session-Id" in answered["access-control-expose-headers"]


@pytest.mark.parametrize("allowed", ["", PAGE])
async def test_preflights_of_other_pages_are_refused(allowed: str) -> None:
    async with running(allowed_origins=allowed) as service:
        headers = {"Origin": "https://evil.example.com", **PREFLIGHT}
        response = await service.http.options("/mcp", headers=headers)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
