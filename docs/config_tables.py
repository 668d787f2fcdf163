"""Writes the tables of keys of configuration files from the models of the files.

``make docs`` runs this; a test fails while the page differs from the output. A key's meaning is its
description in the JSON Schema.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_tools_proxy.config.schema import PUBLISHED

PAGES = tuple(
    Path(__file__).parent / page
    for page in (
        *("reference/config-files.md", "how-to/agents.md", "how-to/limit-rules.md"),
        *("how-to/presets.md", "how-to/sandbox.md", "how-to/server-oauth.md"),
    )
)

_TABLE = re.compile(r"(<!-- keys: ([\w.]+)(?: (\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_OF_EDITORS = ("$schema", "createdAtEpochMillis")
_VARIABLE = re.compile(r"(?<!`)\bMCP_PROXY_[A-Z_]+[A-Z]\b")


def written(page: str) -> str:
    """Return the page with each table as the schema has it."""
    return _TABLE.sub(lambda it: f"{it[1]}\n{_table(it[2], it[3])}\n{it[4]}", page)


def _table(file: str, part: str | None) -> str:
    """Return the table of the root of a file, or of one of its parts."""
    schema = PUBLISHED[file].model_json_schema()
    described = schema["$defs"][part] if part else schema
    rows = "".join(_rows(described["properties"]))
    return f"| key | meaning |\n|---|---|\n{rows}"


def _rows(keys: Mapping[str, Any]) -> Iterator[str]:
    for key, value in keys.items():
        if key not in _OF_EDITORS:
            meaning = " ".join(value["description"].split())
            if value.get("default") not in (None, [], {}) and "Default:" not in meaning:
                meaning += f" Default: `{json.dumps(value['default']).strip(chr(34))}`."
            meaning = _VARIABLE.sub(r"`\g<0>`", meaning).replace("|", "\\|")
            yield f"| `{key}` | {meaning} |\n"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
