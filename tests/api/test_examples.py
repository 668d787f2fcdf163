"""The example configurations and the examples in OpenAPI work."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcp_tools_proxy.config.loader import load_configuration
from mcp_tools_proxy.config.preset_files import list_presets, load_preset
from mcp_tools_proxy.http.api.call_routes import PROMPT_EXAMPLES, RESOURCE_EXAMPLES
from mcp_tools_proxy.http.api.preset_routes import PRESET_EXAMPLES
from tests.support.configuration import Config, Json
from tests.support.service import ACTIVE, PROMPTS, RESOURCES, Service, running

pytestmark = pytest.mark.slow  # each starts the service of the examples and its stdio server

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (ROOT / "examples/config", ROOT / "docker/config")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_an_example_folder_has_no_problems_or_warnings(folder: Path) -> None:
    configuration = load_configuration(folder, {}, call_timeout_s=60, max_result_bytes=1_000_000)
    listing = list_presets(folder)
    default = load_preset(folder, configuration.default_preset_id or "")
    assert (configuration.warnings, listing.problems, default.warnings) == ((), (), ())


def test_compose_runs_the_server_of_its_configuration() -> None:
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    servers = json.loads((FOLDERS[1] / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    host = servers["notes"]["url"].removeprefix("http://").removesuffix("/mcp")
    assert (
        f'--allow-host, "{host}"' in compose,
        "./docker/config}:/data/config:ro" in compose,
    ) == (
        True,
        True,
    )


@pytest.mark.requirement("T-03")
def test_compose_reads_windows_from_the_gateways_documents_by_default() -> None:
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    setting = "MCP_PROXY_RETRIEVAL_WINDOW_URL"
    assert f"{setting}: ${{{setting}:-local}}" in compose


@pytest.fixture(scope="module")
async def service(shared_settings: Json) -> AsyncIterator[Service]:
    """Serve examples/config with the test interpreter."""
    server = {"command": sys.executable, "args": [str(ROOT / "examples/notes_server.py")]}
    preset = json.loads((FOLDERS[0] / "preset_notes.json").read_text())
    config = Config(servers={"notes": server}, presets=[preset])
    async with running(config=config, **shared_settings) as started:
        yield started


async def test_every_example_for_the_notes_runs(service: Service) -> None:
    requests = [
        *[(f"{PROMPTS}/get", body) for body in PROMPT_EXAMPLES.values()],
        *[(f"{RESOURCES}/read", body) for body in RESOURCE_EXAMPLES.values()],
    ]
    answers = [(await service.http.post(path, json=body)).json() for path, body in requests]
    assert {answer["status"] for answer in answers} == {"ok"}


async def test_every_example_of_a_switch_runs(service: Service) -> None:
    answers = [await service.http.put(ACTIVE, json=body) for body in PRESET_EXAMPLES.values()]
    assert {answer.status_code for answer in answers} == {200}


async def test_the_example_preset_has_no_missing_items_and_excludes_delete(
    service: Service,
) -> None:
    assert (await service.get(ACTIVE))["missing"] == []
    assert await service.listed() == ["notes:search_notes", "notes:add_note"]


async def test_notes_can_be_searched_and_written(service: Service) -> None:
    await service.result("notes:add_note", {"title": "tea", "text": "Green, 80 degrees."})
    found = await service.result("notes:search_notes", {"query": "GREEN tea"})
    assert found["structured_content"] == {"tea": "Green, 80 degrees."}
