"""The four categories of offered items, and the rules for a usable item."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import islice
from typing import cast

from pydantic_core import to_json

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import JsonObject
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.offers import CheckArguments
from mcp_tools_proxy.downstream.optional_fields import (
    OF_PROMPTS,
    OF_RESOURCES,
    OF_TEMPLATES,
    OF_TOOLS,
    Shape,
    drop_invalid_fields,
)
from mcp_tools_proxy.wire.identifiers import has_control_character
from mcp_tools_proxy.wire.json_schema.listed_schemas import (
    output_schema_problem,
    why_nothing_satisfies,
    without_null_keywords,
)
from mcp_tools_proxy.wire.json_schema.validator import BrokenSchema, compile_check
from mcp_tools_proxy.wire.mcp_protocol import has_header_parameters
from mcp_tools_proxy.wire.text import ascii_text
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS, OWN_SCHEME, has_own_scheme

MAX_NAME_CHARS = 1_024

MAX_MATCHED = 100
"""Maximum number of templates compared with a URI; only a log line needs the result."""

NO_ARGUMENTS_SCHEMA: JsonObject = {"type": "object"}


NEEDS_TASK = (
    'it can only be run as a task (its execution.taskSupport is "required"), '
    "which this gateway does not support"
)


class UnusableItem(Exception):
    """An item that cannot be used; the message is the reason."""


class NeedsTask(UnusableItem):
    """A valid tool that can only be run as a task, which is not supported."""


@dataclass(frozen=True, slots=True)
class Item:
    """A usable item: its key, and the argument check of a tool.

    ``listed`` is its definition without the invalid optional fields, whose names are in
    ``ignored``.
    """

    key: str
    check: CheckArguments | None = None
    listed: JsonObject = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One list of a server.

    ``method`` lists the category, ``field`` of the answer holds its items, ``capability`` announces
    it. ``key`` names the category in counts and logs. ``read`` returns an item or raises
    UnusableItem. ``optional`` are the optional fields of an item.
    """

    key: str
    kind: Kind
    capability: str
    method: str
    field: str
    read: Callable[[JsonObject], Item]
    optional: Mapping[str, Shape]


def check_of(tool: JsonObject) -> CheckArguments:
    """Return the compiled check of a tool's arguments; cached. Raises UnusableItem."""
    schema = tool.get("inputSchema")
    if schema is None:
        schema = NO_ARGUMENTS_SCHEMA
    if not isinstance(schema, Mapping):
        raise UnusableItem("its inputSchema is not an object")
    if not _allows_object(schema.get("type", "object")):
        raise UnusableItem('its inputSchema is not of type "object"')
    try:
        check = compile_check(schema)
    except BrokenSchema as error:
        raise UnusableItem(error.reason) from None
    as_object = schema if schema.get("type") == "object" else {**schema, "type": "object"}
    if reason := why_nothing_satisfies(as_object):
        raise UnusableItem(f"no arguments satisfy its inputSchema: {ascii_text(reason, 400)}")
    return check


def read_item(category: Category, listed: object) -> Item:
    """Check one item of a list. Raises UnusableItem."""
    if not isinstance(listed, dict):
        raise UnusableItem("it is not an object")
    valid, ignored = drop_invalid_fields(listed, category.optional)
    item = category.read(valid)
    try:
        to_json(valid)
    except ValueError:
        problem = "it is nested too deeply, or has text that is not valid Unicode"
        raise UnusableItem(problem) from None
    return replace(item, listed=item.listed or valid, ignored=(*ignored, *item.ignored))


def is_template(listed: JsonObject) -> bool:
    """Return whether a resource's URI has variables, which makes it a template (W-10)."""
    uri = listed.get("uri")
    if not isinstance(uri, str) or "{" not in uri:
        return False
    try:
        return UriPattern(uri).has_variables
    except ValueError:
        return False


class Matcher:
    """Whether one of several templates matches a URI, in bounded time."""

    def __init__(self, templates: Iterable[str]) -> None:
        self._templates = [(key.partition("{")[0], key) for key in templates]

    def __call__(self, uri: str) -> bool:
        """Return whether one of the templates matches ``uri``."""
        likely = (key for beginning, key in self._templates if uri.startswith(beginning))
        return any(UriPattern(key).matches(uri) for key in islice(likely, MAX_MATCHED))


def as_template(listed: JsonObject) -> JsonObject:
    """Convert a resource whose URI has variables to a template."""
    kept = {key: value for key, value in listed.items() if key not in ("uri", "size")}
    return {"uriTemplate": listed["uri"], **kept}


def _read_tool(tool: JsonObject) -> Item:
    """Check a tool. An ``outputSchema`` that clients cannot compile is removed."""
    from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415 - slow

    key = _text(tool, "name", MAX_NAME_CHARS)
    tool = _with_clean_schemas(tool)
    check = check_of(tool)
    schema = tool.get("inputSchema")
    if has_header_parameters(schema) and (wrong := find_invalid_x_mcp_header(schema)):
        raise UnusableItem(f"its inputSchema is not one of MCP's: {ascii_text(wrong, 200)}")
    execution = tool.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        raise NeedsTask(NEEDS_TASK)
    output_schema = tool.get("outputSchema")
    if output_schema and (problem := output_schema_problem(cast("JsonObject", output_schema))):
        listed = {name: value for name, value in tool.items() if name != "outputSchema"}
        return Item(key, check, listed, (f"outputSchema ({ascii_text(problem, 400)})",))
    return Item(key, check, tool)


def _with_clean_schemas(tool: JsonObject) -> JsonObject:
    """Return a tool without null keywords in its schemas; itself if nothing changes."""
    clean: dict[str, object] = {}
    for name in ("inputSchema", "outputSchema"):
        if isinstance(schema := tool.get(name), Mapping):
            written = without_null_keywords(schema)
            if written is not schema:
                clean[name] = written
    return {**tool, **clean} if clean else tool


def _read_prompt(prompt: JsonObject) -> Item:
    return Item(_text(prompt, "name", MAX_NAME_CHARS))


def _read_resource(resource: JsonObject) -> Item:
    """Use a resource's URI as the key, or its name if the URI is missing (P-12)."""
    if resource.get("uri") is None:
        return Item(_text(resource, "name", MAX_NAME_CHARS))
    return _named_by("uri", resource)


def _read_template(template: JsonObject) -> Item:
    item = _named_by("uriTemplate", template)
    try:
        UriPattern(item.key)
    except ValueError as error:
        raise UnusableItem(f"its uriTemplate cannot be parsed: {str(error)[:200]}") from None
    return item


def _named_by(field_: str, listed: JsonObject) -> Item:
    """Use an item's URI as the key, and as its name if that is missing: MCP requires one."""
    key = _text(listed, field_, MAX_URI_CHARS)
    if has_own_scheme(key):
        raise UnusableItem(f"its {field_} has the scheme {OWN_SCHEME}:, which is the gateway's own")
    return Item(key, listed=listed if listed.get("name") else {**listed, "name": key})


def _text(item: JsonObject, field: str, max_chars: int) -> str:
    value = item.get(field)
    if not isinstance(value, str) or not value:
        raise UnusableItem(f"it has no {field}")
    if len(value) > max_chars:
        raise UnusableItem(f"its {field} is over {max_chars} characters")
    if has_control_character(value):
        raise UnusableItem(f"its {field} holds a control character")
    return value


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
        optional=OF_TOOLS,
    ),
    Category(
        key="prompts",
        kind=Kind.PROMPT,
        capability="prompts",
        method="prompts/list",
        field="prompts",
        read=_read_prompt,
        optional=OF_PROMPTS,
    ),
    Category(
        key="resources",
        kind=Kind.RESOURCE,
        capability="resources",
        method="resources/list",
        field="resources",
        read=_read_resource,
        optional=OF_RESOURCES,
    ),
    Category(
        key="resource_templates",
        kind=Kind.RESOURCE,
        capability="resources",
        method="resources/templates/list",
        field="resourceTemplates",
        read=_read_template,
        optional=OF_TEMPLATES,
    ),
)


class UriPattern:
    """A URI template, which represents all URIs that it matches."""

    def __init__(self, template: str) -> None:
        # slow import; the SDK was imported before, by a connection or by restored definitions
        from mcp.shared.uri_template import UriTemplate  # noqa: PLC0415

        self._template = UriTemplate.parse(template)

    def __repr__(self) -> str:
        return f"<UriPattern {self._template}>"

    @property
    def has_variables(self) -> bool:
        """Whether it represents more than one URI."""
        return bool(self._template.variable_names)

    def matches(self, uri: str) -> bool:
        """Return whether the template matches ``uri``; never if ``uri`` is too long."""
        return self._template.match(uri, max_uri_length=MAX_URI_CHARS) is not None
