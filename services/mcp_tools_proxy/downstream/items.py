"""The four categories of what a server offers, and what an item must be to be usable."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.capability import Check
from mcp_tools_proxy.domain.component import JsonObject
from mcp_tools_proxy.downstream.schema import BrokenSchema, compile_check
from mcp_tools_proxy.policy.identifiers import has_control_character
from mcp_tools_proxy.policy.uris import MAX_URI_CHARS

MAX_NAME_CHARS = 1_024

NO_ARGUMENTS_SCHEMA: JsonObject = {"type": "object"}
"""The input schema of a tool that came without one: any object."""


class Unusable(Exception):
    """An item cannot be used; its text says why."""


@dataclass(frozen=True, slots=True)
class Item:
    """A usable item: its key, and for a tool the check of its arguments."""

    key: str
    check: Check | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One list of a server.

    ``method`` lists it, ``field`` of the answer has the items, ``capability`` announces it. ``key``
    names it in counts and logs. ``read`` gives what an item is, or raises Unusable.
    """

    key: str
    kind: Kind
    capability: str
    method: str
    field: str
    read: Callable[[JsonObject], Item]


def check_of(tool: JsonObject) -> Check:
    """Compile the check of a tool's arguments; cached. Raises Unusable."""
    schema = tool.get("inputSchema")
    if schema is None:
        schema = NO_ARGUMENTS_SCHEMA
    if not isinstance(schema, Mapping):
        raise Unusable("its inputSchema is not an object")
    if not _allows_object(schema.get("type", "object")):
        raise Unusable('its inputSchema is not of type "object"')
    try:
        return compile_check(schema)
    except BrokenSchema as error:
        raise Unusable(error.reason) from None


def read_item(category: Category, listed: object) -> Item:
    """Read one item of a list. Raises Unusable."""
    if not isinstance(listed, dict):
        raise Unusable("it is not an object")
    item = category.read(listed)
    try:
        to_json(listed)
    except ValueError:
        raise Unusable("it is nested too deeply, or holds text that is not Unicode") from None
    return item


def _read_tool(tool: JsonObject) -> Item:
    """Check a tool.

    Its ``outputSchema`` is not: results are passed on as they come, whatever it says. One that is
    no object is not shown.
    """
    key = _text(tool, "name", MAX_NAME_CHARS)
    _expect(tool, "description", str, "a string")
    _expect(tool, "annotations", dict, "an object")
    check = check_of(tool)
    if wrong := find_invalid_x_mcp_header(tool.get("inputSchema")):
        raise Unusable(f"its inputSchema is not one of MCP's: {ascii(wrong[:200])[1:-1]}")
    return Item(key, check)


def _read_prompt(prompt: JsonObject) -> Item:
    key = _text(prompt, "name", MAX_NAME_CHARS)
    arguments = prompt.get("arguments")
    if arguments is None:
        return Item(key)
    if not isinstance(arguments, list):
        raise Unusable("its arguments are not a list")
    for argument in arguments:
        if not isinstance(argument, dict) or not isinstance(argument.get("name"), str):
            raise Unusable("one of its arguments has no name")
    return Item(key)


def _read_resource(resource: JsonObject) -> Item:
    """Key it by its URI, else its name (P-12)."""
    if resource.get("uri") is None:
        return Item(_text(resource, "name", MAX_NAME_CHARS))
    return Item(_text(resource, "uri", MAX_URI_CHARS))


def _read_template(template: JsonObject) -> Item:
    key = _text(template, "uriTemplate", MAX_URI_CHARS)
    try:
        UriTemplate.parse(key)
    except InvalidUriTemplate as error:
        raise Unusable(f"its uriTemplate cannot be parsed: {str(error)[:200]}") from None
    return Item(key)


def _text(item: JsonObject, field: str, max_chars: int) -> str:
    value = item.get(field)
    if not isinstance(value, str) or not value:
        raise Unusable(f"it has no {field}")
    if len(value) > max_chars:
        raise Unusable(f"its {field} is over {max_chars} characters")
    if has_control_character(value):
        raise Unusable(f"its {field} holds a control character")
    return value


def _expect(item: JsonObject, field: str, kind: type, expected: str) -> None:
    value = item.get(field)
    if value is not None and not isinstance(value, kind):
        raise Unusable(f"its {field} is not {expected}")


def _allows_object(kind: object) -> bool:
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


CATEGORIES = (
    Category(
        key="tools",
        kind=Kind.TOOL,
        capability="tools",
        method="tools/list",
        field="tools",
        read=_read_tool,
    ),
    Category(
        key="prompts",
        kind=Kind.PROMPT,
        capability="prompts",
        method="prompts/list",
        field="prompts",
        read=_read_prompt,
    ),
    Category(
        key="resources",
        kind=Kind.RESOURCE,
        capability="resources",
        method="resources/list",
        field="resources",
        read=_read_resource,
    ),
    Category(
        key="resource_templates",
        kind=Kind.RESOURCE,
        capability="resources",
        method="resources/templates/list",
        field="resourceTemplates",
        read=_read_template,
    ),
)
