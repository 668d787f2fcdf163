"""Writes what follows from the chart and the settings: its schema, its README, deploy/kubernetes.

``make chart`` runs this; a test fails while a file is not what this would write.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import helm_python
import yaml  # type: ignore[import-untyped] # has no types
from pydantic import SecretStr

from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable

DEPLOY = Path(__file__).parent
CHART = DEPLOY / "chart"
MANIFESTS = DEPLOY / "kubernetes"
NAME = "mcp-tools-proxy"
NAMESPACE = "default"

CHART_SETS = {"port", "config_dir", "documents_path", "tokens_file", "cache_dir"}
"""Settings that are what the pod's volumes and ports are."""

HEAD = """\
# Generated from deploy/chart with its default values by `make chart`. Edit the chart instead.
"""

_TABLE = re.compile(r"(<!-- values -->\n).*?(<!-- end -->)", re.DOTALL)


def files() -> dict[Path, str]:
    """Return what is written, by path."""
    schema = schema_text()
    readme = CHART / "README.md"
    return {
        CHART / "values.schema.json": schema,
        readme: readme_text(readme.read_text(encoding="utf-8"), json.loads(schema)),
        **{MANIFESTS / name: HEAD + text for name, text in manifests().items()},
    }


def manifests() -> dict[str, str]:
    """Return the chart's default output by the names of its templates."""
    rendered = render({}, name=NAME)
    return {
        Path(path).name: text.strip() + "\n"
        for path, text in rendered.items()
        if text.strip() and path.endswith(".yaml")
    }


def render(values: Mapping[str, Any], *, name: str) -> dict[str, str]:
    """Return what the chart makes of values, by template. Raises HelmError."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(dict(values))
        return chart.render(dict(values), name=name, namespace=NAMESPACE)


def schema_text() -> str:
    """Return the schema of the values, with the names of the settings as the code has them."""
    path = CHART / "values.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    named = {name: {"type": ["string", "number", "boolean"]} for name in plain_settings()}
    schema["properties"]["settings"]["properties"] = named
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def plain_settings() -> list[str]:
    """Return the variables that ``settings`` may have: neither secrets nor the chart's own."""
    return [
        str(field.validation_alias or variable(name))
        for name, field in Settings.model_fields.items()
        if name not in CHART_SETS and not _is_secret(field.annotation)
    ]


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(map(_is_secret, get_args(annotation)))


def readme_text(page: str, schema: Mapping[str, Any]) -> str:
    """Return the README with its table of values as the schema and values.yaml have them."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = "".join(
        f"| `{path}` | {_spelt(default)} | {meaning} |\n"
        for path, default, meaning in _rows(schema["properties"], values, "")
    )
    table = f"\n| value | default | meaning |\n|---|---|---|\n{rows}\n"
    return _TABLE.sub(lambda found: f"{found[1]}{table}{found[2]}", page)


def _rows(
    properties: Mapping[str, Any], values: Mapping[str, Any], prefix: str
) -> Iterator[tuple[str, object, str]]:
    for name, what in properties.items():
        if name not in values:
            continue
        path = f"{prefix}{name}"
        if what.get("description"):
            yield path, values[name], what["description"]
        else:
            yield from _rows(what["properties"], values[name], f"{path}.")


def _spelt(default: object) -> str:
    return "–" if default in ("", [], {}) else f"`{json.dumps(default)}`"


def write() -> None:
    """Write every file, and remove manifests that the chart no longer makes."""
    MANIFESTS.mkdir(exist_ok=True)
    written = files()
    for path in MANIFESTS.glob("*.yaml"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
