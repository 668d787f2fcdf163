"""Converts a JSON Schema of any draft to 2020-12 with the keywords that a model API accepts.

The rules were learned from the APIs' refusals. ``schema_adapter`` has those for the top level.
"""

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.json_schema.argument_names import STRICTEST
from mcp_tools_proxy.wire.json_schema.keywords import (
    DEFINITION,
    LISTS,
    MAY_BE_BOOLEAN,
    SINGLES,
    TABLES,
    Node,
    References,
    draft_of,
    upgrade_to_2020_12,
)
from mcp_tools_proxy.wire.text import quote

PATTERNS = 4_096
"""Size of the cache of compiled patterns; many tools share a few."""

_LOOKAROUND = re.compile(r"\(\?<?[=!]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRules:
    """The rules of one API.

    All APIs require a top level of type "object", and refuse the whole request for one invalid
    schema.

    - ``refused_at_top``: keywords allowed in inner schemas only
    - ``needs_properties``: the top level must have ``properties``, even if empty
    - ``needs_items``: ``items`` is required if arrays are allowed
    - ``argument_name``: pattern for property names; others get an alias
    - ``reads_patterns``: the API compiles patterns, with Python's rules and without lookaround
    """

    refused_at_top: frozenset[str]
    needs_properties: bool = False
    needs_items: bool = False
    argument_name: re.Pattern[str] | None = None
    reads_patterns: bool = False

    def accepts_pattern(self, pattern: object) -> bool:
        """Return whether the API accepts this regular expression."""
        return not self.reads_patterns or (isinstance(pattern, str) and _compiles(pattern))

    def accepts_argument_name(self, name: str) -> bool:
        """Return whether the API accepts this argument name."""
        return self.argument_name is None or self.argument_name.fullmatch(name) is not None


_ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

OPENAI = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
    argument_name=_ARGUMENT_NAME,
    reads_patterns=True,
)

ANTHROPIC = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf"}),
    argument_name=_ARGUMENT_NAME,
)

PLAIN = SchemaRules(
    refused_at_top=frozenset({"anyOf", "oneOf", "allOf", "enum", "const", "not"}),
    needs_properties=True,
    needs_items=True,
    argument_name=_ARGUMENT_NAME,
)
"""Not an API: for MCP clients with weak schema support; see ``plain_schema``."""

PLAIN_RESULT = replace(PLAIN, argument_name=None)
"""For output schemas: results keep their server's names."""

GEMINI = replace(PLAIN, argument_name=STRICTEST)
"""See ``tool_formats.gemini_schema``, which restricts the result further."""


@lru_cache(maxsize=PATTERNS)
def _compiles(pattern: str) -> bool:
    if _LOOKAROUND.search(pattern):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FutureWarning: constructs whose meaning can change
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return False
    return True


MAX_DEPTH = 64
"""Maximum nesting of schemas; a deeper one is replaced by ``{}``, which accepts anything."""

MAX_NAME_CHARS = 48
"""Maximum length of a definition's name, without a number at the end."""

_NEGATING_KEYWORDS = {
    "not": "not",
    "if": "if",
    "then": "if",
    "else": "if",
    "maxContains": "contains",
    "unevaluatedItems": None,
    "unevaluatedProperties": None,
}
"""Keyword → the sibling that makes the keyword reject more when relaxed; None for any sibling."""

_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_.-]+")

Schema = dict[str, Any]


class SubschemaConverter:
    """Converts one document; ``warnings`` name the relaxed parts.

    References then point to ``#/$defs/…``; ``definitions`` contains each target once, so that
    cycles end. A relaxed part accepts more than the original. Keywords that invert this (``not``,
    ``if``, ``oneOf``, …) are relaxed as well, so that the whole never accepts less. Without
    ``trusts_references``, all references count as relaxed.
    """

    def __init__(self, root: Node, rules: SchemaRules, *, trusts_references: bool = True) -> None:
        self.warnings: list[str] = []
        self.definitions: dict[str, Schema] = {}
        self._rules = rules
        self._draft = draft_of(root)
        self._references = References(root)
        self._trusts_references = trusts_references
        self._names: dict[str, str] = {}
        self._used_names: set[str] = set()
        self._name_counts = Counter[str]()
        self._pending: list[tuple[str, Node | bool]] = []
        self.top, _ = self._convert(root, "#", 0)
        for place, target in self._pending:  # the loop appends to it
            self.definitions[self._names[place]], _ = self._convert(target, place, 0)

    @property
    def has_references(self) -> bool:
        """Whether any reference was resolved."""
        return bool(self._names)

    def _convert(self, node: object, path: str, depth: int) -> tuple[Schema, bool]:
        """Convert a node; return it, and whether it accepts exactly the same values."""
        if not isinstance(node, Mapping):
            return ({"not": {}} if node is False else {}), True
        if depth > MAX_DEPTH:
            self._warn(path, "is nested too deeply; any value is shown instead")
            return {}, False
        converted: Schema = {}
        relaxed: set[str] = set()
        for key, value in upgrade_to_2020_12(node, self._draft).items():
            converted[key], exact = self._convert_value(key, value, f"{path}/{key}", depth)
            if not exact:
                relaxed.add(key)
        self._follow(converted, path, relaxed)
        self._check_patterns(converted, path, relaxed)
        self._relax_negating_keywords(converted, path, relaxed)
        if self._rules.needs_items and "items" not in converted and allows_arrays(converted):
            converted["items"] = {}
        return converted, not relaxed

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

    def _follow(self, converted: Schema, path: str, relaxed: set[str]) -> None:
        if "$ref" not in converted:
            return
        found = self._references.find(converted["$ref"])
        if found is None:
            reference = converted.pop("$ref")
            shown = quote(str(reference))
            self._warn(path, f"refers to {shown}, which is not in the schema; it is left out")
            relaxed.add("$ref")
            return
        place, target = found
        if place not in self._names:
            self._names[place] = self._free_name(place)
            self._pending.append((place, target))
        converted["$ref"] = f"{DEFINITION}{self._names[place]}"
        if not self._trusts_references:
            relaxed.add("$ref")

    def _free_name(self, place: str) -> str:
        last = place.rpartition("/")[2] if "/" in place else place
        plain = _UNNAMEABLE.sub("_", last).strip("_")[:MAX_NAME_CHARS] or "root"
        name = plain
        while name in self._used_names:
            self._name_counts[plain] += 1
            name = f"{plain}_{self._name_counts[plain] + 1}"
        self._used_names.add(name)
        return name

    def _check_patterns(self, converted: Schema, path: str, relaxed: set[str]) -> None:
        """Remove patterns that the API cannot compile.

        Without its pattern, a property would be an additional one, so these are allowed.
        """
        if "pattern" in converted and not self._rules.accepts_pattern(converted["pattern"]):
            self._warn_pattern(f"{path}/pattern", converted.pop("pattern"))
            relaxed.add("pattern")
        table = converted.get("patternProperties")
        if not isinstance(table, Mapping):
            return
        usable = {key: value for key, value in table.items() if self._rules.accepts_pattern(key)}
        if len(usable) == len(table):
            return
        for key in table:
            if key not in usable:
                self._warn_pattern(f"{path}/patternProperties", key)
        converted["patternProperties"] = usable
        converted.pop("additionalProperties", None)
        relaxed.add("patternProperties")

    def _relax_negating_keywords(self, converted: Schema, path: str, relaxed: set[str]) -> None:
        """Remove keywords that would reject more because a related part was relaxed."""
        for key, part in _NEGATING_KEYWORDS.items():
            if key in converted and (part in relaxed or (part is None and relaxed)):
                del converted[key]
                self._warn(f"{path}/{key}", "is left out, because it depends on a relaxed part")
        if "oneOf" in relaxed:
            branches = converted.pop("oneOf")
            if "anyOf" in converted:
                converted["allOf"] = [*converted.get("allOf", ()), {"anyOf": branches}]
            else:
                converted["anyOf"] = branches
            self._warn(f"{path}/oneOf", "is shown as anyOf, because a part of it is relaxed")

    def _warn_pattern(self, path: str, pattern: object) -> None:
        shown = quote(str(pattern))
        self._warn(path, f"is {shown}, a pattern that this API does not accept; it is left out")

    def _warn(self, path: str, change: str) -> None:
        self.warnings.append(f"inputSchema: {quote(path)} {change}")


def allows_arrays(node: Node) -> bool:
    """Return whether a node's types include arrays."""
    kind = node.get("type")
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
