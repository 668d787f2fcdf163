"""What can be listed and used by name: a tool, a prompt or a resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import NO_TENANT, Call, Kind

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run gave: ``value`` is a JSON object, ``tokens`` what it costs its budgets (§2).

    ``max_bytes`` is what it may have as JSON; None is the gateway's own limit. One that
    ``input_required`` is no result yet: ``value`` is MCP's InputRequiredResult as the server sent
    it. Only a call whose client ``supports_input_required`` gets such a one.
    """

    value: JsonObject
    tokens: int
    max_bytes: int | None = None
    input_required: bool = False


class ComponentSpec(Protocol):
    """What every frozen description of a component tells."""

    @property
    def kind(self) -> Kind:
        """Which of the three it is; a resource template is a resource."""
        ...

    @property
    def name(self) -> str:
        """What a caller names it by: a tool's or prompt's name, a resource's URI."""
        ...

    @property
    def bare_name(self) -> str:
        """What its server calls it: the name without the server's id."""
        ...

    @property
    def server_id(self) -> str | None:
        """The downstream server that offers it; None for what is ours."""
        ...

    @property
    def needs_tenant(self) -> bool:
        """Whether it works on what belongs to tenants; who has none is not offered it."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether using it twice does no more than using it once."""
        ...

    @property
    def argument_names(self) -> frozenset[str]:
        """The arguments that it declares."""
        ...

    @property
    def as_mcp(self) -> JsonObject:
        """The component as an MCP list shows it, under ``name``."""
        ...


class Component(Protocol):
    """Something usable by name, local or remote; who uses it never asks which."""

    @property
    def spec(self) -> ComponentSpec:
        """Describe the component; the same object for its life."""
        ...

    def parse(self, arguments: JsonObject) -> object:
        """Check the arguments; what it returns goes to ``call`` unchanged.

        Raises InvalidArguments, and the *_TOO_LARGE errors that follow from arguments alone.
        """
        ...

    async def check_document(self, parsed: object, call: Call) -> None:
        """Check that the document which the arguments name is there for ``call.caller``.

        Raises AccessDenied, DocumentNotFound. Does nothing where that is not ours to know: for a
        server's tools, whatever they call ``doc_id``.
        """
        ...

    async def call(self, parsed: object, call: Call) -> Result:
        """Do the work for ``call.caller``. Raises ProxyError; cancelling stops the work."""
        ...


class NamesNoDocument:
    """Base of components that name no document of ours."""

    __slots__ = ()

    async def check_document(self, parsed: object, call: Call) -> None:
        """Check nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Frozen description of one tool, as a model sees it.

    ``alias`` matches ``^[a-zA-Z0-9_-]{1,64}$`` for model APIs that accept no other name (contract
    §6). The schemas are JSON Schema objects. ``extra`` is what else its server's descriptor holds
    (title, icons, ``_meta``, what MCP adds later), shown in lists as it came.
    """

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    server_id: str | None = None
    needs_tenant: bool = False
    """Whether it works on what belongs to tenants."""
    idempotent: bool = True
    """Whether running it twice does no more than running it once."""
    argument_names: frozenset[str] = field(init=False)
    """The arguments that the input schema declares."""

    def __post_init__(self) -> None:
        properties = self.input_schema.get("properties")
        names = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        object.__setattr__(self, "argument_names", names)

    @property
    def kind(self) -> Kind:
        """A tool."""
        return Kind.TOOL

    @property
    def bare_name(self) -> str:
        """What its server calls it; the name of one of ours."""
        return self.name if self.server_id is None else self.name[len(self.server_id) + 1 :]

    @property
    def as_mcp(self) -> JsonObject:
        """The tool as MCP's tools/list shows it."""
        shown: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        return {**shown, **self.extra} if self.extra else shown


class Tool(Component, Protocol):
    """Something callable by name, local or remote."""

    @property
    def spec(self) -> ToolSpec:
        """Describe the tool; the same object for the tool's life."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec:
    """Frozen description of one prompt; ``as_mcp`` is its server's descriptor as it came."""

    name: str
    server_id: str
    as_mcp: JsonObject
    argument_names: frozenset[str] = field(default=frozenset())
    required: frozenset[str] = field(default=frozenset())
    """The arguments that it cannot do without."""

    @property
    def kind(self) -> Kind:
        """A prompt."""
        return Kind.PROMPT

    @property
    def bare_name(self) -> str:
        """What its server calls it."""
        return self.name

    @property
    def needs_tenant(self) -> bool:
        """It is its server's, which knows no tenants."""
        return False

    @property
    def idempotent(self) -> bool:
        """It is only read."""
        return True


class Prompt(Component, Protocol):
    """A prompt to be fetched by name; its result has ``messages`` and perhaps ``description``."""

    @property
    def spec(self) -> PromptSpec:
        """Describe the prompt."""
        ...

    @property
    def completion(self) -> Component:
        """What completes its arguments; its own arguments are MCP's params without ``ref``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSpec:
    """Frozen description of one resource or template.

    ``name`` is its key (P-12): the URI, the URI template, or the name of one without. ``as_mcp``
    is its server's descriptor as it came.
    """

    name: str
    server_id: str
    as_mcp: JsonObject
    argument_names: frozenset[str] = field(default=frozenset())

    @property
    def kind(self) -> Kind:
        """A resource, also where it is a template."""
        return Kind.RESOURCE

    @property
    def bare_name(self) -> str:
        """What its server calls it: its key."""
        return self.name

    @property
    def needs_tenant(self) -> bool:
        """It is its server's, which knows no tenants."""
        return False

    @property
    def idempotent(self) -> bool:
        """It is only read."""
        return True


class Resource(Component, Protocol):
    """A resource to be read; its result has ``contents``.

    One that a template gave has the template's spec.
    """

    @property
    def spec(self) -> ResourceSpec:
        """Describe the resource."""
        ...

    async def watch(
        self, on_update: Callable[[], None], tenant_id: str = NO_TENANT
    ) -> Callable[[], None]:
        """Have ``on_update`` called when it changed, until what is returned is called.

        It must not raise or wait. What it takes counts as the tenant's. Raises ProxyError.
        """
        ...


class ResourceTemplate(Protocol):
    """It stands for many URIs."""

    @property
    def spec(self) -> ResourceSpec:
        """Describe the template."""
        ...

    @property
    def completion(self) -> Component:
        """What completes its variables; its own arguments are MCP's params without ``ref``."""
        ...

    def at(self, uri: str) -> Resource | None:
        """Give the resource at ``uri``, None when the template does not stand for it."""
        ...
