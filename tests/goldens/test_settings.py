"""Settings of the other two programs: names, types and defaults.

The gateway's are compared with ``docs/reference/settings.md`` and ``.env.example``."""

from collections.abc import Iterator, Mapping

import pytest
from pydantic_settings import BaseSettings

from mcp_tools_proxy.settings.auth import ClientSettings
from mcp_tools_proxy.settings.types import ENV_PREFIX
from retrieval_service.app import RetrievalSettings
from tests.support.goldens import Golden, schema_lines

KINDS: Mapping[str, tuple[type[BaseSettings], str]] = {
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
def test_settings_match_the_golden(kind: str, golden: Golden) -> None:
    golden.check(f"settings_{kind}.txt", sorted(setting_lines(*KINDS[kind])))
