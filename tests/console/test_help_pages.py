"""Every page links to its guide, which the gateway serves."""

import pytest

from mcp_tools_proxy.auth.operator_tokens import OPERATOR
from mcp_tools_proxy.console.navigation import PARTS, START, parts_for
from mcp_tools_proxy.console.pages.help_pages import guide_of
from tests.support.console_browser import Html, running_console

HELP = "/console/help"
MARKUP = "<img src=x onerror=alert(1)>"


async def test_each_section_links_to_its_guide() -> None:
    async with running_console() as console:
        for part in parts_for(OPERATOR):
            page = await console.browser.open(part.path)
            (address,) = [it for it in page.links if it.startswith(HELP)]
            assert address == f"{HELP}/{part.guide}"
            guide = await console.browser.open(address.partition("#")[0])
            assert part.title in guide.text
            ids = {attributes.get("id") for _, attributes in guide.tags}
            assert address.partition("#")[2] in {*ids, ""}


async def test_the_sign_in_guide_needs_no_sign_in() -> None:
    async with running_console() as console:
        browser = console.new_browser()
        page = await browser.open("/console/sign-in")
        (address,) = [it for it in page.links if it.startswith(HELP)]
        assert address == f"{HELP}/{START}"
        guide = await browser.open(address)
        assert "Sign out" not in guide.text
        assert [tag for tag, _ in guide.tags].count("h1") == 1


def test_guides_link_only_to_each_other() -> None:
    for name in (START, *(part.guide.partition("#")[0] for part in PARTS)):
        guide = guide_of(name, "/below")
        assert guide is not None
        page = Html(guide.html)
        ids = {attributes.get("id") for _, attributes in page.tags}
        for address in page.links:
            other, _, anchor = address.partition("#")
            assert guide_of(other.removeprefix(f"/below{HELP}/"), "") or anchor in ids
        assert [tag for tag, _ in page.tags if tag in ("img", "script")] == []


@pytest.mark.parametrize("name", ["none", "..%2f..%2fpyproject", "console.md", MARKUP])
async def test_unknown_guides_are_not_found(name: str) -> None:
    async with running_console() as console:
        response = await console.browser.get(f"{HELP}/{name}")
    assert response.status_code == 404
    assert "onerror=" not in response.text
    assert guide_of(name, "") is None
