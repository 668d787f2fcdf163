"""A JSON Schema of any draft as one of 2020-12 that a model API takes, below its top level."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from mcp_tools_proxy.json_schema.keywords import (
    LISTS,
    MAY_BE_BOOLEAN,
    SINGLES,
    TABLES,
    Node,
    draft_of,
    upgrade_to_2020_12,
)
from mcp_tools_proxy.json_schema.model_api.rules import SchemaRules
from mcp_tools_proxy.json_schema.references import References
from mcp_tools_proxy.wire.text import quote

MAX_DEPTH = 64
"""Schemas within schemas; what is deeper is shown as anything."""

MAX_NAME_CHARS = 48
"""Of a definition; a number may follow."""

_NEGATING_KEYWORDS = {
    "not": "not",
    "if": "if",
    "then": "if",
    "else": "if",
    "maxContains": "contains",
    "unevaluatedItems": None,
    "unevaluatedProperties": None,
}
"""Keywords that refuse more when a part accepts more: which part, None for any beside them."""

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")

Schema = dict[str, Any]


class SchemaConverter:
    """Rewrites one document; what it had to loosen is told in ``warnings``.

    Every reference then leads to ``#/$defs/…``; ``definitions`` holds what they lead to, each once,
    so cycles end. A part that had to be loosened accepts more than it did. A keyword that turns
    this around (``not``, ``if``, ``oneOf``, …) is loosened with it, so that the whole never accepts
    less. With ``trusts_references`` off, each reference counts as loosened.
    """

    def __init__(self, root: Node, rules: SchemaRules, *, trusts_references: bool = True) -> None:
        self.warnings: list[str] = []
        self.definitions: dict[str, Schema] = {}
        self._rules = rules
        self._draft = draft_of(root)
        self._references = References(root)
        self._trusts_references = trusts_references
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._alike = Counter[str]()
        self._waiting: list[tuple[str, Node | bool]] = []
        self.top, _ = self._convert(root, "#", 0)
        for place, target in self._waiting:  # grows meanwhile
            self.definitions[self._names[place]], _ = self._convert(target, place, 0)

    @property
    def has_references(self) -> bool:
        """Tell whether any reference was followed."""
        return bool(self._names)

    def _convert(self, node: object, path: str, depth: int) -> tuple[Schema, bool]:
        """Rewrite a node; give also whether it accepts exactly what it did."""
        if not isinstance(node, Mapping):
            return ({"not": {}} if node is False else {}), True
        if depth > MAX_DEPTH:
            self._tell(path, "is nested too deeply, so it is shown as anything")
            return {}, False
        told: Schema = {}
        relaxed: set[str] = set()
        for key, value in upgrade_to_2020_12(node, self._draft).items():
            told[key], exact = self._convert_value(key, value, f"{path}/{key}", depth)
            if not exact:
                relaxed.add(key)
        self._follow(told, path, relaxed)
        self._check_patterns(told, path, relaxed)
        self._loosen_around(told, path, relaxed)
        if self._rules.needs_items and "items" not in told and allows_arrays(told):
            told["items"] = {}
        return told, not relaxed

    def _convert_value(self, key: str, value: Any, path: str, depth: int) -> tuple[Any, bool]:
        if key in MAY_BE_BOOLEAN and isinstance(value, bool):
            return value, True
        if key in SINGLES:
            return self._convert(value, path, depth + 1)
        if key in TABLES and isinstance(value, Mapping):
            pairs = {k: self._convert(v, f"{path}/{_step(k)}", depth + 1) for k, v in value.items()}
            return {k: v for k, (v, _) in pairs.items()}, all(exact for _, exact in pairs.values())
        if key in LISTS and isinstance(value, list):
            found = [self._convert(v, f"{path}/{i}", depth + 1) for i, v in enumerate(value)]
            return [v for v, _ in found], all(exact for _, exact in found)
        return value, True

    def _follow(self, told: Schema, path: str, relaxed: set[str]) -> None:
        if "$ref" not in told:
            return
        found = self._references.find(told["$ref"])
        if found is None:
            reference = told.pop("$ref")
            self._tell(path, f"refers to {quote(str(reference))}, which is not in it, and is loose")
            relaxed.add("$ref")
            return
        place, target = found
        if place not in self._names:
            self._names[place] = self._free_name(place)
            self._waiting.append((place, target))
        told["$ref"] = f"#/$defs/{self._names[place]}"
        if not self._trusts_references:
            relaxed.add("$ref")

    def _free_name(self, place: str) -> str:
        last = place.rpartition("/")[2] if "/" in place else place
        plain = _UNNAMEABLE.sub("_", last).strip("_")[:MAX_NAME_CHARS] or "root"
        name = plain
        while name in self._taken:
            self._alike[plain] += 1
            name = f"{plain}_{self._alike[plain] + 1}"
        self._taken.add(name)
        return name

    def _check_patterns(self, told: Schema, path: str, relaxed: set[str]) -> None:
        """Leave out what the API cannot compile; other names are then free as well."""
        if "pattern" in told and not self._rules.takes_pattern(told["pattern"]):
            self._tell_pattern(f"{path}/pattern", told.pop("pattern"))
            relaxed.add("pattern")
        table = told.get("patternProperties")
        if not isinstance(table, Mapping):
            return
        usable = {key: value for key, value in table.items() if self._rules.takes_pattern(key)}
        if len(usable) == len(table):
            return
        for key in table:
            if key not in usable:
                self._tell_pattern(f"{path}/patternProperties", key)
        told["patternProperties"] = usable
        told.pop("additionalProperties", None)
        relaxed.add("patternProperties")

    def _loosen_around(self, told: Schema, path: str, relaxed: set[str]) -> None:
        """Loosen the keywords that would refuse more where a part of theirs accepts more."""
        for key, part in _NEGATING_KEYWORDS.items():
            if key in told and (part in relaxed or (part is None and relaxed)):
                del told[key]
                self._tell(f"{path}/{key}", "is left out, as it depends on a part that is loose")
        if "oneOf" in relaxed:
            branches = told.pop("oneOf")
            if "anyOf" in told:
                told["allOf"] = [*told.get("allOf", ()), {"anyOf": branches}]
            else:
                told["anyOf"] = branches
            self._tell(f"{path}/oneOf", "is shown as anyOf, as a part of it is loose")

    def _tell_pattern(self, path: str, pattern: object) -> None:
        self._tell(path, f"holds {quote(str(pattern))}, which this API cannot read; it is left out")

    def _tell(self, path: str, change: str) -> None:
        self.warnings.append(f"inputSchema: {quote(path)} {change}")


def allows_arrays(node: Node) -> bool:
    """Tell whether a node names arrays among its types."""
    kind = node.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
