"""Guard findings in the console: definitions of a server, and refused calls."""

import pytest

from tests.console.server_pages import OBJECT, S1, serving
from tests.support.configuration import Json
from tests.support.mcp_servers.raw_web import running_raw

HIDDEN = "a\u200bb"
DIRTY: Json = {"name": "dirty", "description": f"Finds notes. {HIDDEN}", "inputSchema": OBJECT}


@pytest.mark.parametrize("action", ["flag", "redact", "refuse"])
async def test_a_finding_in_a_definition_is_shown_with_its_guard(action: str) -> None:
    async with running_raw(only=("echo",), extra={"tools": [DIRTY]}) as server:
        entry = {**server.entry, "guards": {"hiddenCharacters": action}}
        async with serving(entry, tools=["echo", "dirty"]) as console:
            page = await console.browser.open(f"{S1}?tab=changes")
            overview = await console.browser.open("/console")
    assert f"Guard hiddenCharacters ({action}) found" in page.text
    assert ("hidden by a guard" in page.text) == (action == "refuse")
    assert ("Hidden by a guard" in overview.text) == (action == "refuse")
    assert "\u200b" not in page.text


async def test_a_refused_call_is_shown_with_its_guard() -> None:
    async with running_raw(only=("echo",)) as server:
        entry = {**server.entry, "guards": {"hiddenCharacters": "refuse"}}
        async with serving(entry, tools=["echo"]) as console:
            assert await console.service.code("s1:echo", {"text": HIDDEN}) == "GUARD_REFUSED"
            calls = await console.browser.open("/console/calls")
            (link,) = [it for it in calls.links if "?at=" in it]
            record = await console.browser.open(link)
    assert "s1:echo GUARD_REFUSED" in calls.text
    assert "hiddenCharacters" in record.text
