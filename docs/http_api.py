"""Writes the generated parts of ``reference/http-api.md`` from the OpenAPI document.

``make docs`` runs this; a test fails while the page differs from the output. A part is between a
marker such as ``<!-- routes: calls -->`` and ``<!-- end -->``; the rest of the page is written by
hand.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_tools_proxy.app.http import create_app
from mcp_tools_proxy.settings.settings import Settings

PAGE = Path(__file__).parent / "reference/http-api.md"

Part = Mapping[str, Any]

COMMON_STATUSES = frozenset({"401", "403", "413", "422", "500"})
"""Statuses that have the same meaning for all routes, and a table of their own."""

ELSEWHERE: Mapping[str, str] = {
    "ReplyBatchRequest": "#a-batch",
    "BatchMessage": "#a-batch",
    "ErrorCode": "errors.md",
    "ErrorDetails": "errors.md",
}
"""Schemas that are described by hand, with the target of links to them."""

_MARKED = re.compile(r"(<!-- (\w+)(?:: (\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with each generated part as the OpenAPI document has it."""
    reference = Reference(create_app(Settings()).openapi())
    return _MARKED.sub(lambda it: f"{it[1]}\n{reference.part(it[2], it[3])}\n{it[4]}", page)


class Reference:
    """The OpenAPI document as Markdown."""

    def __init__(self, document: Part) -> None:
        self._document = document
        self._components = document["components"]
        self._schemas: Mapping[str, Part] = self._components["schemas"]

    def part(self, kind: str, tag: str | None) -> str:
        """Return the Markdown of a marker."""
        match kind:
            case "routes":
                return "\n".join(self._routes(tag or ""))
            case "headers":
                return self._headers()
            case "statuses":
                return self._statuses()
        return "\n".join(self._objects())

    def _routes(self, tag: str) -> Iterator[str]:
        described = next(it for it in self._document["tags"] if it["name"] == tag)
        yield f"{described['description']}\n"
        for path, methods in sorted(self._document["paths"].items()):
            for method, operation in methods.items():
                if tag in operation["tags"]:
                    yield from self._route(method.upper(), path, operation)

    def _operations(self) -> Iterator[Part]:
        for methods in self._document["paths"].values():
            yield from methods.values()

    def _route(self, method: str, path: str, operation: Part) -> Iterator[str]:
        yield f'<a id="{operation["operationId"]}"></a>\n'
        yield f"### `{method} {path}`\n"
        title = f"**{operation['summary']}** (`{operation['operationId']}`)."
        parts = [title, operation.get("description", "")]
        yield " ".join(filter(None, parts)) + "\n"
        if rows := [*self._parameters(operation), *self._body(operation)]:
            yield _table(("in", "name", "type", "meaning"), rows)
        if headers := self._header_names(operation):
            yield f"[Headers](#headers): {', '.join(f'`{it}`' for it in headers)}\n"
        responses = operation["responses"]
        own = [it for it in responses if it not in COMMON_STATUSES]
        common = ", ".join(it for it in responses if it in COMMON_STATUSES)
        answers = [(status, self._answer(responses[status])) for status in own]
        if common:
            answers.append((common, "see [statuses](#statuses)"))
        yield _table(("status", "answer"), answers)

    def _parameters(self, operation: Part) -> Iterator[Sequence[str]]:
        for it in map(self._resolved, operation.get("parameters", ())):
            if it["in"] != "header":
                name = _named(it["name"], required=it["required"])
                yield it["in"], name, self._type(it["schema"]), self._meaning(it["schema"])

    def _header_names(self, operation: Part) -> Sequence[str]:
        parameters = map(self._resolved, operation.get("parameters", ()))
        return [it["name"] for it in parameters if it["in"] == "header"]

    def _body(self, operation: Part) -> Iterator[Sequence[str]]:
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            schema = content["schema"]
            if schema.get("format") == "binary":
                yield "body", f"`{media_type}`", "bytes", schema.get("description", "")
            else:
                for row in self._fields_of_body(schema):
                    yield "body", *row

    def _fields_of_body(self, schema: Part) -> Iterator[Sequence[str]]:
        """Yield the fields of a body; of one of several models, each field once."""
        found: dict[str, Sequence[str]] = {}
        for name in self._models_of_body(schema):
            for row in self._fields(self._schemas[name]):
                found.setdefault(row[0], row)
        yield from found.values()

    def _models_of_body(self, schema: Part) -> Iterator[str]:
        name = _name_of(schema["$ref"])
        for it in self._schemas[name].get("anyOf", (schema,)):
            yield _name_of(it["$ref"])

    def _fields(self, schema: Part) -> Iterator[Sequence[str]]:
        required = schema.get("required", ())
        for name, it in schema.get("properties", {}).items():
            named = _named(name, required=name in required)
            yield named, self._type(it), self._meaning(it)

    def _meaning(self, schema: Part) -> str:
        """Return the description of a value, or the first sentence of that of its type."""
        if description := schema.get("description"):
            return str(description)
        if "$ref" in schema:
            return self._meaning(self._resolved(schema)).partition(". ")[0].removesuffix(".")
        found = map(self._meaning, schema.get("anyOf", ()))
        return next(filter(None, found), "")

    def _answer(self, response: Part) -> str:
        resolved = self._resolved(response)
        contents: Iterable[Part] = resolved.get("content", {}).values()
        types = [self._type(it["schema"]) for it in contents]
        shown = [it for it in types if it not in ("text", self._type(_REFUSAL))]
        return " ".join([resolved["description"], *(f"→ {it}" for it in shown)])

    def _headers(self) -> str:
        found = {it["name"]: it for it in self._components["parameters"].values()}
        rows = [
            (f"`{name}`", "request", it["description"])
            for name, it in found.items()
            if it["in"] == "header"
        ]
        answers = self._answer_headers()
        rows += [(f"`{name}`", "answer", text) for name, text in answers.items()]
        return _table(("header", "of", "meaning"), rows)

    def _answer_headers(self) -> Mapping[str, str]:
        return {
            name: self._resolved(header)["description"]
            for operation in self._operations()
            for response in map(self._resolved, operation["responses"].values())
            for name, header in response.get("headers", {}).items()
        }

    def _statuses(self) -> str:
        found = {
            status: self._resolved(response)["description"]
            for operation in self._operations()
            for status, response in operation["responses"].items()
            if status in COMMON_STATUSES
        }
        return _table(("status", "answer"), sorted(found.items()))

    def _objects(self) -> Iterator[str]:
        for name in sorted(self._referred()):
            schema = self._schemas[name]
            rows = [*self._fields(schema)]
            parts = [f'<a id="schema-{name.lower()}"></a>', f"**{name}**"]
            parts += [_cell(schema.get("description", "")), "" if rows else self._type(schema)]
            yield " ".join(filter(None, parts)) + "\n"
            if rows:
                yield _table(("field", "type", "meaning"), rows)

    def _referred(self) -> set[str]:
        """Return the names of the schemas that the page links to."""
        found: set[str] = set()
        pending = [
            part
            for operation in self._operations()
            for part in self._parts_with_references(operation)
        ]
        while pending:
            for name in _names_in(pending.pop()):
                if name not in found and name not in ELSEWHERE:
                    found.add(name)
                    pending.append(self._schemas[name])
        return {name for name in found if not self._is_inlined(name)}

    def _parts_with_references(self, operation: Part) -> Iterator[object]:
        """Yield the schemas of parameters, of the fields of the body, and of responses."""
        for it in map(self._resolved, operation.get("parameters", ())):
            yield it["schema"]
        for content in operation.get("requestBody", {}).get("content", {}).values():
            if "$ref" in content["schema"]:
                for name in self._models_of_body(content["schema"]):
                    if name not in ELSEWHERE:
                        yield self._schemas[name].get("properties")
        for response in map(self._resolved, operation["responses"].values()):
            yield response.get("content")

    def _is_inlined(self, name: str) -> bool:
        """Return whether a schema is only a choice between others, which are shown instead."""
        schema = self._schemas[name]
        choices = schema.get("anyOf", schema.get("oneOf", [schema]))
        return bool(choices) and all("$ref" in it for it in choices)

    def _type(self, schema: Part) -> str:
        """Return the type of a value in a few words."""
        if "$ref" in schema:
            return self._reference(_name_of(schema["$ref"]))
        if choices := schema.get("anyOf", schema.get("oneOf")):
            return _either(self._type(it) for it in choices if it != _NULL)
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`".replace('"', "")
        if "enum" in schema:
            return _either(f"`{it}`" for it in schema["enum"])
        default = schema.get("default")
        shown = "" if default in (None, [], "") else f"; default `{json.dumps(default)}`"
        return f"{self._kind(schema)}{shown}".replace('`"', "`").replace('"`', "`")

    def _kind(self, schema: Part) -> str:
        match schema.get("type"):
            case "array":
                return f"list of {self._type(schema.get('items', {}))}"
            case "object":
                values = schema.get("additionalProperties")
                return f"object of {self._type(values)}" if isinstance(values, dict) else "object"
            case "string":
                return _TEXTS.get(schema.get("format", ""), "text") + _bounds(schema, "Length")
            case "integer":
                return "whole number" + _bounds(schema, "")
            case "number":
                return "number" + _bounds(schema, "")
            case "boolean":
                return "`true`, `false`"
        return "any value"

    def _reference(self, name: str) -> str:
        if name not in ELSEWHERE and self._is_inlined(name):
            return self._type(self._schemas[name])
        target = ELSEWHERE.get(name, f"#schema-{name.lower()}")
        return f"[{name}]({target})"

    def _resolved(self, part: Part) -> Part:
        """Return a part of the document, or the shared one that it refers to."""
        if "$ref" not in part:
            return part
        kind, name = part["$ref"].split("/")[2:]
        found: Part = self._components[kind][name]
        return found


_NULL = {"type": "null"}
_REFUSAL = {"$ref": "#/components/schemas/ErrorResponse"}

_TEXTS: Mapping[str, str] = {"date-time": "time (ISO 8601)", "binary": "bytes"}


def _names_in(node: object) -> Iterator[str]:
    """Yield the names of the schemas that a schema refers to."""
    if isinstance(node, list):
        for it in node:
            yield from _names_in(it)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield _name_of(value)
            elif key != "mapping":
                yield from _names_in(value)


def _name_of(reference: str) -> str:
    return reference.rpartition("/")[2]


def _either(types: Iterable[str]) -> str:
    """Join types; a text beside the names that are known today is "another name"."""
    found = list(dict.fromkeys(types))
    if len(found) > 1 and found[-1] == "text" and "](" in found[0]:
        found[-1] = "another name"
    return " or ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else found[0]


def _bounds(schema: Part, of: str) -> str:
    """Return the bounds of a number, or of the length of a text."""
    least = schema.get("min" + (of or "imum"))
    most = schema.get("max" + (of or "imum"))
    unit = " characters" if of else ""
    match least, most:
        case None, None:
            return f" over {schema['exclusiveMinimum']}" if "exclusiveMinimum" in schema else ""
        case None, _:
            return f", at most {most}{unit}"
        case 1, None if of:
            return ", not empty"
        case _, None:
            return f", at least {least}{unit}"
    return f", {least} to {most}{unit}"


def _named(name: str, *, required: bool) -> str:
    return f"`{name}`" if required else f"`{name}`?"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([_cell(it) for it in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
