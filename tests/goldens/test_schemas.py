"""The JSON Schemas of configuration files and of local tools, without prose."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mcp_tools_proxy.config.schema import PUBLISHED, published
from tests.support.configuration import Json
from tests.support.goldens import MAX_WORD, Golden, flat, schema_lines, section
from tests.support.service import RESOURCES, TOOLS, running

FORMATS = ("mcp", "openai", "anthropic", "gemini")
SCHEMA_KEYS = {"inputSchema", "input_schema", "outputSchema", "parameters", "parametersJsonSchema"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_schema_of_a_configuration_file_matches_the_golden(name: str, golden: Golden) -> None:
    patterns: dict[str, str] = {}
    schema = with_named_patterns(json.loads(published(PUBLISHED[name])), patterns)
    lines = [f"pattern {pattern} = {json.dumps(it)}" for pattern, it in sorted(patterns.items())]
    lines += section("file", schema_lines("file", schema))
    for part, described in sorted(schema["$defs"].items()):
        lines += section(part, schema_lines(part, described))
    golden.check(f"schema_{name.partition('.')[0]}.txt", lines)


def with_named_patterns(value: Any, patterns: dict[str, str]) -> Any:
    """Return a schema with short names for long patterns; store the patterns."""
    if isinstance(value, list):
        return [with_named_patterns(it, patterns) for it in value]
    if not isinstance(value, dict):
        return value
    found = {key: with_named_patterns(it, patterns) for key, it in value.items()}
    pattern = found.get("pattern")
    if isinstance(pattern, str) and len(pattern) > MAX_WORD:
        name = hashlib.sha256(pattern.encode()).hexdigest()[:8]
        patterns[name] = pattern
        found["pattern"] = name
    return found


def without_prose(item: Json) -> Json:
    return {key: value for key, value in item.items() if key not in ("description", "title")}


async def test_the_local_tools_match_the_golden(golden: Golden, tmp_path: Path) -> None:
    """In each format of a list."""
    lines: list[str] = []
    async with running(
        retrieval_window_url="local", documents_keep_originals=True, documents_path=tmp_path
    ) as service:
        for kind in FORMATS:
            listed = (await service.get(TOOLS, format=kind))["tools"]
            for tool in (it.get("function", it) for it in listed):
                path = f"{kind} {tool['name']}"
                facts = [
                    fact
                    for key in SCHEMA_KEYS & tool.keys()
                    for fact in schema_lines(key, tool.pop(key))
                ]
                lines += section(path, [*facts, *flat(without_prose(tool))])
        for template in (await service.get(RESOURCES))["resource_templates"]:
            lines += section(f"template {template['name']}", flat(without_prose(template)))
    golden.check("tools.txt", lines)
