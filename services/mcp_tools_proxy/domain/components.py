"""Components: the tools, prompts and resources that callers list and use by name.

A ``…Spec`` is the frozen description that lists show; a component also does the work.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.fast_dataclass import dataclass

JsonObject = Mapping[str, object]

DOCUMENT_ARGUMENT = "doc_id"
"""The argument that names a document; a tool that has it has a budget for each value (T-08)."""


MAX_MODEL_NAME_CHARS = 64
"""Longest name of a tool that model APIs take."""


class ToolNameStyle(StrEnum):
    """The form of downstream tools' names in lists; local tools keep their names in every style.

    ``server:tool``, the alias, or the bare name on the server.
    """

    SERVER = "server"
    ALIAS = "alias"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one call: ``value`` is a JSON object, ``tokens`` its cost (contract §2).

    ``max_bytes`` bounds its size as JSON; None means the gateway's own limit. With
    ``input_required`` the call has not ended: ``value`` is MCP's InputRequiredResult as the server
    sent it. Only a call whose client ``supports_input_required`` gets one.
    """

    value: JsonObject
    tokens: int
    max_bytes: int | None = None
    input_required: bool = False


class ComponentSpec(Protocol):
    """What the frozen descriptions of all three kinds of component have in common."""

    @property
    def kind(self) -> Kind:
        """Tool, prompt or resource; a resource template counts as a resource."""
        ...

    @property
    def name(self) -> str:
        """The name that callers use: a tool's or prompt's name, a resource's URI."""
        ...

    @property
    def bare_name(self) -> str:
        """The name on its server: ``name`` without the server's id."""
        ...

    @property
    def given_name(self) -> str | None:
        """The name that the preset gives it, under which lists show it; None for none."""
        ...

    @property
    def server_id(self) -> str | None:
        """The downstream server that offers it; None for a local component."""
        ...

    @property
    def needs_tenant(self) -> bool:
        """Whether it works on tenants' data; callers without a tenant are not offered it."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether calling it twice has no more effect than calling it once."""
        ...

    @property
    def exchanges_jwt(self) -> bool:
        """Whether it is called with a token that its caller's JWT is exchanged for."""
        ...

    @property
    def argument_names(self) -> frozenset[str]:
        """The names of its declared arguments."""
        ...

    @property
    def as_mcp(self) -> JsonObject:
        """Its descriptor in MCP's lists, under ``name``."""
        ...


class Component(Protocol):
    """A component that can be called; callers do not know whether it is local or remote."""

    @property
    def spec(self) -> ComponentSpec:
        """The component's description; always the same object."""
        ...

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the arguments that its caller may not choose; often unchanged.

        Raises InvalidArguments for an argument that says otherwise, IdentityRequired.
        """
        ...

    def parse(self, arguments: JsonObject) -> object:
        """Check the arguments and return them in the form that ``call`` takes.

        Raises InvalidArguments, and the *_TOO_LARGE errors that follow from arguments alone.
        """
        ...

    async def check_document(self, parsed: object, call: Call) -> str | None:
        """Check that ``call.caller`` may read the document that the arguments name.

        Returns its version; None where it is not one of our documents, as the ``doc_id`` of a
        downstream server's tool. Raises AccessDenied, DocumentNotFound.
        """
        ...

    async def call(self, parsed: object, call: Call) -> Result:
        """Perform the call for ``call.caller``. Raises ProxyError; cancelling stops the work."""
        ...


class NamesNoDocument:
    """Base of components whose arguments name none of our documents, and are all their callers'."""

    __slots__ = ()

    def complete_arguments(self, call: Call) -> Call:
        """Return the call unchanged."""
        return call

    async def check_document(self, parsed: object, call: Call) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Frozen description of one tool, as a model sees it.

    ``alias`` matches ``^[a-zA-Z0-9_-]{1,64}$`` for model APIs that accept no other name (contract
    §6). The schemas are JSON Schema objects. ``extra`` holds the other fields of the server's
    descriptor (title, icons, ``_meta``, what MCP adds later); lists show them unchanged.
    """

    name: str
    alias: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    annotations: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    server_id: str | None = None
    given_name: str | None = None
    """The name that the preset gives it; lists show it under that one."""
    needs_tenant: bool = False
    """Whether it works on tenants' data."""
    is_configured: bool = True
    """Whether it can work at all; if not, lists leave it out, and each call of it is refused."""
    idempotent: bool = True
    """Whether calling it twice has no more effect than calling it once."""
    exchanges_jwt: bool = False
    """Whether it is called with a token that its caller's JWT is exchanged for."""
    max_text_bytes: int | None = None
    """Bytes of text in a result, where the entry of its server limits them."""
    structured_in_messages: bool = True
    """Whether models are shown structured content beside a text that does not hold it."""
    argument_aliases: Mapping[str, str] | None = None
    """Names of arguments that model APIs may refuse, at any depth → names shown instead; None for
    those that follow from the input schema alone."""
    argument_names: frozenset[str] = field(init=False)
    """The arguments that the input schema declares, computed from it."""

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
        """The name on its server; a local tool's ``name``."""
        return self.name if self.server_id is None else self.name[len(self.server_id) + 1 :]

    @property
    def is_for_models(self) -> bool:
        """Whether a model may see it; an MCP App alone calls tools whose visibility lacks it."""
        meta = self.extra.get("_meta")
        ui = meta.get("ui") if isinstance(meta, Mapping) else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list | tuple) or "model" in visibility

    @property
    def listed_name(self) -> str:
        """The name in lists that name tools by ``server_id:tool``."""
        return self.given_name or self.name

    @property
    def model_name(self) -> str:
        """The name in lists for model APIs, which take no colon."""
        return self.given_name or self.alias

    @property
    def gemini_name(self) -> str:
        """The name in lists for Gemini, which begins with a letter or an underscore."""
        name = self.model_name
        if name[:1].isalpha() or name[:1] == "_":
            return name
        return f"_{name}" if len(name) < MAX_MODEL_NAME_CHARS else f"_{name[1:]}"

    @property
    def as_mcp(self) -> JsonObject:
        """The descriptor for MCP's ``tools/list``."""
        shown: dict[str, object] = {
            "name": self.listed_name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        return {**shown, **self.extra} if self.extra else shown


class Tool(Component, Protocol):
    """A tool, local or remote."""

    @property
    def spec(self) -> ToolSpec:
        """The tool's description; always the same object."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadOnlySpec:
    """What the specs of prompts and resources have in common: using one changes nothing."""

    name: str
    server_id: str | None
    as_mcp: JsonObject
    given_name: str | None = None
    """The name that the preset gives it; lists show it under that one."""
    argument_names: frozenset[str] = field(default=frozenset())
    needs_tenant: bool = False
    """Whether it works on tenants' data; downstream servers have none."""
    exchanges_jwt: bool = False
    """Whether it is used with a token that its caller's JWT is exchanged for."""

    @property
    def bare_name(self) -> str:
        """The name on its server; the gateway makes no other one for this kind."""
        return self.name

    @property
    def idempotent(self) -> bool:
        """True: getting a prompt or reading a resource changes nothing."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec(_ReadOnlySpec):
    """Frozen description of one prompt; ``as_mcp`` is its descriptor, under its server's name."""

    required: frozenset[str] = field(default=frozenset())
    """Its required arguments."""

    @property
    def kind(self) -> Kind:
        """A prompt."""
        return Kind.PROMPT


class Prompt(Component, Protocol):
    """A prompt to be fetched by name; its result has ``messages`` and perhaps ``description``."""

    @property
    def spec(self) -> PromptSpec:
        """The prompt's description."""
        ...

    @property
    def completion(self) -> Component:
        """Component that completes its arguments; takes the params of MCP without ``ref``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSpec(_ReadOnlySpec):
    """Frozen description of one resource or template.

    ``name`` is its key (P-12): the URI, the URI template, or the name of one without a URI.
    ``as_mcp`` is its descriptor.
    """

    @property
    def kind(self) -> Kind:
        """A resource, also for a template."""
        return Kind.RESOURCE


class Resource(Component, Protocol):
    """A resource that can be read; its result has ``contents``.

    The spec of a resource that a template resolved is the template's.
    """

    @property
    def spec(self) -> ResourceSpec:
        """The description of the resource, or of its template."""
        ...

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        """Subscribe to updates: call ``on_update`` on each; return the function that unsubscribes.

        ``on_update`` must not raise or block. The subscription counts against the share of the
        caller's tenant. Raises ProxyError.
        """
        ...


class ResourceTemplate(Protocol):
    """A URI template: one entry in a list for many resources."""

    @property
    def spec(self) -> ResourceSpec:
        """The template's description."""
        ...

    @property
    def completion(self) -> Component:
        """Component that completes its variables; takes the params of MCP without ``ref``."""
        ...

    def at(self, uri: str) -> Resource | None:
        """Return the resource at ``uri``, None when the template does not match it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteComponents:
    """The components of servers, each kind in the view's order; several may share a key (P-13)."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
