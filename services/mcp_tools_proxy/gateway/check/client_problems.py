"""Tools rejected by common MCP clients, with the option that helps.

Measured with autogen, mcpo and clients that forward tools to OpenAI and Anthropic: for many of
them, one such tool makes the whole list or every model request fail.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from mcp_tools_proxy.domain.components import ToolNameStyle, ToolSpec
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.list_options import ALIASES
from mcp_tools_proxy.policy.aliases import MODEL_NAME_PATTERN
from mcp_tools_proxy.registry.mcp_lists import NameStyles
from mcp_tools_proxy.wire.json_schema.api_rules import ANTHROPIC, OPENAI, allows_arrays
from mcp_tools_proxy.wire.json_schema.keywords import DEFINITION, Node
from mcp_tools_proxy.wire.json_schema.listed_schemas import nodes_of
from mcp_tools_proxy.wire.text import quote

PLAIN = '?schemas=plain in the client\'s URL, or "schemas": "plain" in the profile of its agent'
ALIAS = '?name_style=alias in the client\'s URL, or "tool_name_style": "alias" in the profile'

_DEFINITIONS = (DEFINITION, "#/definitions/")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProblem:
    """A property of a tool that some clients reject, and the option that avoids it."""

    tool: str
    problem: str
    remedy: str


def find_client_problems(
    specs: Iterable[ToolSpec], styles: NameStyles
) -> tuple[ClientProblem, ...]:
    """Return the problems of tools as ``/mcp`` lists them by default."""
    shape = styles.over_mcp(ALIASES, None)
    return tuple(
        ClientProblem(tool=spec.listed_name, problem=problem, remedy=remedy)
        for spec in specs
        for problem, remedy in (*_name_problems(spec, shape.style), *_schema_problems(spec))
    )


def _name_problems(spec: ToolSpec, style: ToolNameStyle) -> Iterator[tuple[str, str]]:
    names = {
        ToolNameStyle.SERVER: spec.listed_name,
        ToolNameStyle.BARE: spec.bare_name,
        ToolNameStyle.ALIAS: spec.alias,
    }
    name = names[style]
    if not re.fullmatch(MODEL_NAME_PATTERN, name):
        yield f"its name {quote(name)} does not match {MODEL_NAME_PATTERN}", ALIAS


def _schema_problems(spec: ToolSpec) -> Iterator[tuple[str, str]]:
    """Yield each kind of schema problem once, with its first place."""
    found: dict[str, str] = {}
    _add_root_problems(spec.input_schema, found)
    for node in nodes_of(spec.input_schema):
        _add_problems(node, found)
        _add_name_problems(node, found)
    for node in nodes_of(spec.output_schema or {}):
        _add_problems(node, found)
    for problem in found.values():
        yield problem, PLAIN


def _add_root_problems(schema: Node, found: dict[str, str]) -> None:
    keywords = sorted((OPENAI.refused_at_top | {"$ref"}).intersection(schema))
    if keywords:
        found["root"] = f"its inputSchema has {', '.join(keywords)} at the root"


def _add_problems(node: Node, found: dict[str, str]) -> None:
    reference = node.get("$ref")
    if isinstance(reference, str) and not reference.startswith(_DEFINITIONS):
        found.setdefault("$ref", f"it has a $ref to {quote(reference)}, not to a definition")
    kind = node.get("type")
    if isinstance(kind, list):
        found.setdefault("type", f"it has a list of types: {', '.join(map(str, kind))}")
    if allows_arrays(node) and "items" not in node and "prefixItems" not in node:
        found.setdefault("items", "it has an array without items")


def _add_name_problems(node: Node, found: dict[str, str]) -> None:
    properties = node.get("properties")
    for name in properties if isinstance(properties, Mapping) else ():
        if not ANTHROPIC.accepts_argument_name(name):
            found.setdefault("property", f"it has a property named {quote(name)}")
