"""Writes the tables of ``reference/settings.md`` from the settings classes.

``make docs`` runs this; a test fails while the page is not what this would write. A setting's
meaning is the docstring under its field, without the ids of acceptance criteria.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from docs.field_docstrings import field_docstrings
from mcp_tools_proxy.settings import auth, documents, observability, remote, runs, settings
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable

PAGE = Path(__file__).parent / "reference/settings.md"

_MODULES = (auth, documents, observability, remote, runs, settings)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "connector": ("remote_",),
    "traces": ("otlp_", "otel_", "trust_traceparent"),
    "console": ("console",),
    "jwt": ("jwt_", "signin_"),
    "auth": ("auth_", "admin_", "tokens_", "allowed_", "trusted_"),
    "documents": ("documents_", "cache_dir", "max_document_", "ocr_", "mock_", "hide_"),
    "meaning": ("embeddings_",),
    "servers": (
        *("config_", "preset", "tool_timeout_", "startup_", "require_", "server_"),
        *("secrets_", "signing_", "public_", "credentials_", "logins_"),
    ),
    "mcp": ("tool_name_", "default_tenant_", "max_sessions", "session_"),
    "budgets": ("rate_limit_",),
    "quotas": ("quota_",),
    "idempotency": ("idempotency_", "state_"),
    "runs": ("runs_", "run_max_", "approvals_", "policies_"),
    "windows": ("retrieval_", "rag_", "max_window_", "max_chunk_"),
    "sizes": ("max_", "blocklist_"),
    "audit": ("audit",),
    "process": ("",),
}
"""Prefixes of field names for each table, by the name in its marker; the first that fits has it."""

_TABLE = re.compile(r"(<!-- settings: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_FIELD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
_CRITERIA = re.compile(r" \((?:contract §\d+|[A-Z]-\d+(?:, [A-Z]-\d+)*)\)")


def written(page: str) -> str:
    """Return the page with each table as the code has it."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{_table(found[2])}\n{found[3]}", page)


def _table(group: str) -> str:
    rows = (_row(name) for name in _names(group))
    return "".join(("| variable | default | values | meaning |\n|---|---|---|---|\n", *rows))


def _names(group: str) -> Iterator[str]:
    for name in Settings.model_fields:
        fits = (key for key, prefixes in GROUPS.items() if name.startswith(prefixes))
        if next(fits) == group:
            yield name


def _row(name: str) -> str:
    field = Settings.model_fields[name]
    named = str(field.validation_alias or variable(name))
    meaning = _FIELD.sub(_as_variable, _CRITERIA.sub("", _MEANINGS[name]).replace("``", "`"))
    cells = (f"`{named}`", spelt(field.default), _values(_SCHEMAS[named, name]), meaning)
    return f"| {' | '.join(cells)} |\n"


def _as_variable(found: re.Match[str]) -> str:
    """Return the variable of a setting whose field a docstring names."""
    return f"`{variable(found[0])}`" if found[0] in Settings.model_fields else found[0]


def spelt(default: object) -> str:
    """Return a default as an environment file has it, a dash for none."""
    match default:
        case None | ():
            return "–"
        case bool():
            return str(default).lower()
        case tuple():
            return ",".join(default)
        case Path():
            return f"./{default}"
    return f"{default:g}" if isinstance(default, float) else str(default)


def _values(schema: Mapping[str, object]) -> str:
    """Return what may be written, as a JSON schema of the setting says it."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in _list(schema["enum"]))
    kind = _KINDS.get(str(schema.get("format")), _KINDS[str(schema.get("type"))])
    if "maximum" in schema:
        return f"{kind}, {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f"{kind} ≥ {schema['minimum']}"
    return f"{kind} > {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else kind


_KINDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "`true`, `false`",
    "array": "list",
    "path": "path",
    "password": "secret",
}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _schemas() -> Iterator[tuple[tuple[str, str], Mapping[str, object]]]:
    schema = Settings.model_json_schema()
    for name, field in Settings.model_fields.items():
        own = schema["properties"][str(field.validation_alias or name)]
        listed = own.get("anyOf", [own] if "$ref" in own else [])
        kinds = [
            schema["$defs"][it["$ref"].rpartition("/")[2]] if "$ref" in it else it
            for it in listed
            if it.get("type") != "null"
        ]
        yield (str(field.validation_alias or variable(name)), name), (kinds or [own])[0]


_SCHEMAS = dict(_schemas())
_MEANINGS = dict(it for module in _MODULES for it in field_docstrings(module))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
