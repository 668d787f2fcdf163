"""Goldens: files of user-visible facts in tests/goldens/, one fact per line.

``pytest --update`` writes the current state; otherwise a difference fails the test.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS
from tests.support.local_tools import LISTED_TOOLS, LOCAL_TOOLS

FOLDER = Path(__file__).parents[1] / "goldens"

_TOOL_LISTS = (LISTED_TOOLS, sorted(LOCAL_TOOLS), sorted(DOCUMENT_TOOLS))
"""The lists of local tools in answers, the OpenAPI document and a schema."""


@dataclass(frozen=True, kw_only=True)
class Golden:
    """Compares facts with a file; ``module`` is the test module, for the update command."""

    update: bool
    module: str
    folder: Path = FOLDER

    def check(self, name: str, facts: Iterable[str]) -> None:
        """Compare with ``tests/goldens/<name>``; the order of the facts is that of the file."""
        file = self.folder / name
        found = "".join(f"{fact}\n" for fact in _with_one_line_of_tools([*facts]))
        assert found, "a golden has facts"
        if self.update:
            file.write_text(found, encoding="utf-8")
        assert file.exists(), f"no golden yet; {self._command}"
        wanted = file.read_text(encoding="utf-8")
        if found == wanted:
            return
        sides = (whole_facts(wanted), whole_facts(found))
        names = (f"tests/goldens/{name}", "the current behaviour")
        difference = unified_diff(*sides, *names, n=1, lineterm="")
        raise AssertionError("\n".join(("differs from its golden", *difference, "", self._command)))

    @property
    def _command(self) -> str:
        return f"if the change is wanted: pytest -n0 --update {self.module}"


def _with_one_line_of_tools(facts: Sequence[str]) -> Iterator[str]:
    """Yield facts with one line in place of a list of all local tools, which tools.txt describes.

    A list with a missing or moved tool is not replaced, so that it counts as a difference.
    """
    position = 0
    while position < len(facts):
        for names in _TOOL_LISTS:
            if (head := _head_of_list(facts[position : position + len(names)], names)) is not None:
                yield f"{head}LOCAL TOOLS"
                position += len(names)
                break
        else:
            yield facts[position]
            position += 1


def _head_of_list(facts: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the prefix of the name in each fact, or None if they are not such a list."""
    if len(facts) < len(names):
        return None
    heads = {
        fact.partition(name)[0] if re.search(rf"{name}(?=\W|$)", fact) else None
        for fact, name in zip(facts, names, strict=True)
    }
    return heads.pop() if len(heads) == 1 else None


def section(name: str, facts: Iterable[str]) -> Iterator[str]:
    """Yield a name and, indented below it, the facts in order, without the name as prefix."""
    yield name
    yield from (f"  {fact}" for fact in sorted(it.removeprefix(name).lstrip() for it in facts))


def whole_facts(text: str) -> list[str]:
    """Return the facts of a golden, each prefixed with the name of its section."""
    name, lines = "", []
    for line in text.splitlines():
        name = name if line.startswith("  ") else line
        lines.append(f"{name} {line.strip()}" if line.startswith("  ") else line)
    return lines


def flat(value: object, path: str = "") -> Iterator[str]:
    """Yield a line for each JSON value with its path; texts in a list are not numbered."""
    match value:
        case Mapping() if value:
            for key, item in sorted(value.items()):
                yield from flat(item, f"{path}.{key}" if path else str(key))
        case list() if value:
            for number, item in enumerate(value):
                is_plain = not isinstance(item, Mapping | list)
                yield from flat(item, f"{path}[]" if is_plain else f"{path}[{number}]")
        case _:
            yield f"{path} = {json.dumps(value, ensure_ascii=False)}"


MAX_WORD = 100
"""Maximum length of a keyword's value that is not split into lines."""

_LINES = frozenset({"$defs", "description", "enum", "examples", "properties", "required", "title"})
"""Keywords of a schema that are prose or have separate lines."""

_WORDS = {
    **dict.fromkeys(("$ref", "type", "anyOf", "oneOf"), "{}"),
    "const": "= {}",
    "items": "of {}",
    "additionalProperties": "map of {}",
}
_CHOICES = {"anyOf": " or ", "oneOf": " xor "}

Schema = Mapping[str, object]


def schema_lines(path: str, schema: object, *, required: bool = False) -> Iterator[str]:
    """Yield a JSON schema without its prose: a line for each named part."""
    yield f"{path}: {'required ' if required else ''}{_shape(schema)}"
    if isinstance(schema, Mapping):
        yield from _property_lines(path, schema)
        for name, part in _own_parts(schema):
            if not _is_short(part):
                yield from schema_lines(f"{path}{name}", part)
        yield from (f"{path} = {json.dumps(value)}" for value in _values(schema, "enum"))
        for key, value in schema.items():
            if _is_long(value) and key not in _LINES | _WORDS.keys():
                yield from flat(value, f"{path} {key}")


def _property_lines(path: str, schema: Schema) -> Iterator[str]:
    needed, properties = _values(schema, "required"), schema.get("properties", {})
    assert isinstance(properties, Mapping)
    yield from (f"{path}.{name}: required" for name in needed if name not in properties)
    for name, part in properties.items():
        yield from schema_lines(f"{path}.{name}", part, required=name in needed)


def _is_long(value: object) -> bool:
    return isinstance(value, Mapping | list) and len(json.dumps(value)) > MAX_WORD


def _values(schema: Schema, key: str) -> list[object]:
    values = schema.get(key, [])
    assert isinstance(values, list)
    return values


def _own_parts(schema: Schema) -> Iterator[tuple[str, object]]:
    for key, name in (("items", "[]"), ("additionalProperties", ".*")):
        if key in schema:
            yield name, schema[key]
    for key in _CHOICES:
        yield from ((f"<{number}>", it) for number, it in enumerate(_values(schema, key), 1))


def _is_short(schema: object) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if schema.keys() & {"properties", "enum", "required"}:
        return False
    return all(_is_short(part) for _, part in _own_parts(schema))


def _shape(schema: object) -> str:
    if not isinstance(schema, Mapping):
        return json.dumps(schema)
    return " ".join(_words(schema)) or "any"


def _words(schema: Schema) -> Iterator[str]:
    for key in (*_WORDS, *sorted(schema.keys() - _WORDS.keys() - _LINES)):
        if key in schema:
            word = _WORDS.get(key, f"{key} {{}}").format
            match key, schema[key]:
                case ("$ref", reference):
                    yield str(reference).rpartition("/")[2]
                case ("type" | "anyOf" | "oneOf", parts):
                    listed = parts if isinstance(parts, list) else [parts]
                    yield _CHOICES.get(key, " or ").join(map(_inline, listed))
                case ("additionalProperties", False):
                    yield "closed"
                case ("items" | "additionalProperties", part):
                    yield word(_inline(part))
                case (_, value):
                    yield word("…" if _is_long(value) else json.dumps(value))


def _inline(schema: object) -> str:
    if isinstance(schema, str):
        return schema
    if not _is_short(schema):
        return "…"
    words = _shape(schema)
    return f"({words})" if " or " in words or " xor " in words else words
