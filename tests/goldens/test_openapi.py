"""The OpenAPI document without prose: operations and shared components."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings
from tests.support.goldens import Golden, schema_lines, section

Part = Mapping[str, Any]


@pytest.fixture(scope="module")
def document() -> Any:
    return create_app(Settings()).openapi()


def parameter_lines(path: str, parameter: Part) -> Iterator[str]:
    """Yield location, name and schema of a parameter or header."""
    if "$ref" in parameter:
        yield f"{path} {parameter['$ref'].rpartition('/')[2]}"
        return
    place = f"{path} {parameter['in']} {parameter['name']}" if "in" in parameter else path
    yield from schema_lines(place, parameter["schema"], required=bool(parameter.get("required")))


def content_lines(path: str, content: Part) -> Iterator[str]:
    for kind, described in content.items():
        yield from schema_lines(f"{path} {kind}", described.get("schema", {}))
        yield from (f"{path} {kind} example {name}" for name in described.get("examples", ()))


def response_lines(path: str, response: Part) -> Iterator[str]:
    if "$ref" in response:
        yield f"{path} {response['$ref'].rpartition('/')[2]}"
        return
    yield path
    for name, header in response.get("headers", {}).items():
        yield from parameter_lines(f"{path} header {name}", header)
    yield from content_lines(path, response.get("content", {}))


def operation_lines(path: str, operation: Part) -> Iterator[str]:
    yield f"{path} id {operation['operationId']}"
    yield from (f"{path} tag {tag}" for tag in operation["tags"])
    for needed in operation.get("security", ()):
        yield f"{path} security {' and '.join(needed) or 'none'}"
    for parameter in operation.get("parameters", ()):
        yield from parameter_lines(f"{path} parameter", parameter)
    if body := operation.get("requestBody"):
        yield f"{path} body {'required' if body.get('required') else 'optional'}"
        yield from content_lines(f"{path} body", body["content"])
    for status, response in operation["responses"].items():
        yield from response_lines(f"{path} {status}", response)
    known = {"operationId", "tags", "security", "parameters", "requestBody", "responses"}
    assert operation.keys() - known <= {"summary", "description"}


def test_the_operations_match_the_golden(document: Part, golden: Golden) -> None:
    lines: list[str] = []
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            lines += section(name, operation_lines(name, operation))
    golden.check("openapi_operations.txt", lines)


def test_shared_components_match_the_golden(document: Part, golden: Golden) -> None:
    parts = document["components"]
    lines = [f"openapi {document['openapi']}", f"title {document['info']['title']}"]
    lines += [f"tag {tag['name']}" for tag in document["tags"]]
    for name, scheme in sorted(parts["securitySchemes"].items()):
        lines.append(f"security {name}: {scheme['type']} {scheme['scheme']}")
    for name, parameter in sorted(parts["parameters"].items()):
        lines += parameter_lines(f"parameter {name}", parameter)
    for name, header in sorted(parts["headers"].items()):
        lines += parameter_lines(f"header {name}", header)
    for name, response in sorted(parts["responses"].items()):
        lines += section(f"response {name}", response_lines(f"response {name}", response))
    for name, schema in sorted(parts["schemas"].items()):
        title = [f"title {schema['title']}"] if "title" in schema else []
        lines += section(f"schema {name}", [*title, *schema_lines(f"schema {name}", schema)])
    assert parts.keys() == {"securitySchemes", "parameters", "headers", "responses", "schemas"}
    golden.check("openapi_components.txt", lines)
