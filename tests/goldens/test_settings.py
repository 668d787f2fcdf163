"""Settings: names, types and defaults in the code, and the lines of ``.env.example``."""

import json
import re
from collections.abc import Iterator, Mapping

import pytest
from pydantic_settings import BaseSettings

from mcp_tools_proxy.settings.auth import ClientSettings
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import ENV_PREFIX
from retrieval_service.app import RetrievalSettings
from tests.support.goldens import Golden, schema_lines
from tests.support.source_files import ROOT

KINDS: Mapping[str, tuple[type[BaseSettings], str]] = {
    "gateway": (Settings, ENV_PREFIX),
    "client": (ClientSettings, ENV_PREFIX),
    "retrieval": (RetrievalSettings, "RETRIEVAL_"),
}


def setting_lines(kind: type[BaseSettings], prefix: str) -> Iterator[str]:
    schema = kind.model_json_schema()
    for name, field in kind.model_fields.items():
        variable = str(field.validation_alias or f"{prefix}{name.upper()}")
        own = schema["properties"][str(field.validation_alias or name)]
        yield from schema_lines(variable, own)
    for name, part in schema.get("$defs", {}).items():
        yield from schema_lines(name, part)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_are_those_of_the_golden(kind: str, golden: Golden) -> None:
    golden.check(f"settings_{kind}.txt", sorted(setting_lines(*KINDS[kind])))


def test_the_example_of_settings_is_that_of_the_golden(golden: Golden) -> None:
    """Without its prose; a setting that is commented out has ``#`` behind its name."""
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    lines = re.findall(r"^(# )?([A-Z][A-Z_]+)=(.*)$", text, re.MULTILINE)
    facts = [f"{name}{' #' if comment else ''} = {json.dumps(it)}" for comment, name, it in lines]
    golden.check("env_example.txt", sorted(facts))
