"""Components: the tools, prompts and resources that callers list and use by name.

A ``…Spec`` is the frozen description shown in lists; a component also executes calls.
"""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Protocol

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.document import DocumentRead
from mcp_tools_proxy.domain.fast_dataclass import dataclass

JsonObject = Mapping[str, object]

DOCUMENT_ARGUMENT = "doc_id"
"""The argument that names a document; tools with it have a budget for each value (T-08)."""


MAX_MODEL_NAME_CHARS = 64
"""Maximum length of a tool's name in model APIs."""


class ToolNameStyle(StrEnum):
    """The form of downstream tools' names in lists: ``server:tool``, the alias, or the bare name.

    Local tools have the same name in all styles.
    """

    SERVER = "server"
    ALIAS = "alias"
    BARE = "bare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one call: ``value`` is a JSON object, ``tokens`` its cost (contract §2).

    ``max_bytes`` limits its size as JSON; None means the gateway's limit. With ``input_required``
    (only for clients that support it), the call is unfinished: ``value`` is the server's
    InputRequiredResult. ``read`` are the documents in the value, for the record of a run.
    ``reads_untrusted`` means that something in it comes from a document that is marked untrusted.
    """

    value: JsonObject
    tokens: int
    max_bytes: int | None = None
    input_required: bool = False
    read: tuple[DocumentRead, ...] = ()
    reads_untrusted: bool = False


class ComponentSpec(Protocol):
    """The common fields of tool, prompt and resource descriptions."""

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
        """The name in lists if the preset renames the item; otherwise None."""
        ...

    @property
    def server_id(self) -> str | None:
        """The downstream server that offers it; None for a local component."""
        ...

    @property
    def needs_tenant(self) -> bool:
        """Whether it uses tenants' data; callers without a tenant are not offered it."""
        ...

    @property
    def idempotent(self) -> bool:
        """Whether a repeated call has the same effect as a single one."""
        ...

    @property
    def exchanges_jwt(self) -> bool:
        """Whether calls use a token obtained in exchange for the caller's JWT."""
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
    """A component that can be called, local or remote."""

    @property
    def spec(self) -> ComponentSpec:
        """The component's description; always the same object."""
        ...

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with the arguments that the configuration fixes; often unchanged.

        Raises InvalidArguments if the caller sent another value for one of them, and
        IdentityRequired.
        """
        ...

    def parse(self, arguments: JsonObject) -> object:
        """Check the arguments and return them in the form that ``call`` expects.

        Raises InvalidArguments, and the *_TOO_LARGE errors that depend on the arguments alone.
        """
        ...

    async def check_document(self, parsed: object, call: Call) -> str | None:
        """Check that ``call.caller`` may read the document named by the arguments.

        Returns its version; None for a downstream tool's ``doc_id``. Raises AccessDenied,
        DocumentNotFound.
        """
        ...

    async def call(self, parsed: object, call: Call) -> Result:
        """Execute the call for ``call.caller``. Raises ProxyError; cancellation stops the work."""
        ...


class NamesNoDocument:
    """Base of components without document arguments or bound arguments."""

    __slots__ = ()

    def complete_arguments(self, call: Call) -> Call:
        """Return the call unchanged."""
        return call

    async def check_document(self, parsed: object, call: Call) -> None:
        """Return None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Frozen description of one tool, as shown to a model.

    ``alias`` matches ``^[a-zA-Z0-9_-]{1,64}$``, which model APIs require (contract §6). ``extra``
    holds the other fields of the server's descriptor (title, icons, ``_meta``, future ones), which
    lists show unchanged.
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
    needs_tenant: bool = False
    is_configured: bool = True
    """Whether its settings are complete; otherwise lists omit it and calls are refused."""
    idempotent: bool = True
    exchanges_jwt: bool = False
    max_text_bytes: int | None = None
    """Maximum bytes of text in a result, if its server's entry limits them."""
    structured_in_messages: bool = True
    """Whether models receive structured content in addition to a text that does not contain it."""
    argument_aliases: Mapping[str, str] | None = None
    """Argument names that model APIs may refuse, at any depth → replacement names; None to
    compute them from the input schema."""
    argument_names: frozenset[str] = field(init=False)
    """The arguments that the input schema declares, computed from it."""

    def __post_init__(self) -> None:
        properties = self.input_schema.get("properties")
        names = frozenset(properties) if isinstance(properties, Mapping) else frozenset()
        object.__setattr__(self, "argument_names", names)

    @property
    def kind(self) -> Kind:
        """``Kind.TOOL``."""
        return Kind.TOOL

    @property
    def bare_name(self) -> str:
        """The name on its server; for a local tool ``name``."""
        return self.name if self.server_id is None else self.name[len(self.server_id) + 1 :]

    @property
    def is_for_models(self) -> bool:
        """Whether models may see it; otherwise only MCP Apps call it (``_meta.ui.visibility``)."""
        meta = self.extra.get("_meta")
        ui = meta.get("ui") if isinstance(meta, Mapping) else None
        visibility = ui.get("visibility") if isinstance(ui, Mapping) else None
        return not isinstance(visibility, list | tuple) or "model" in visibility

    @property
    def listed_name(self) -> str:
        """The name in lists with the style ``server_id:tool``."""
        return self.given_name or self.name

    @property
    def model_name(self) -> str:
        """The name in lists for model APIs, which reject colons."""
        return self.given_name or self.alias

    @property
    def gemini_name(self) -> str:
        """The name in lists for Gemini, which requires a letter or underscore at the start."""
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
    """Common fields of the specs of prompts and resources, which only read."""

    name: str
    server_id: str | None
    as_mcp: JsonObject
    given_name: str | None = None
    argument_names: frozenset[str] = field(default=frozenset())
    needs_tenant: bool = False
    exchanges_jwt: bool = False

    @property
    def bare_name(self) -> str:
        """The name on its server; equal to ``name`` for this kind."""
        return self.name

    @property
    def idempotent(self) -> bool:
        """True, because prompts and resources are only read."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSpec(_ReadOnlySpec):
    """Frozen description of one prompt; ``as_mcp`` is its descriptor, under its server's name."""

    required: frozenset[str] = field(default=frozenset())

    @property
    def kind(self) -> Kind:
        """``Kind.PROMPT``."""
        return Kind.PROMPT


class Prompt(Component, Protocol):
    """A prompt, fetched by name; its result has ``messages`` and optionally ``description``."""

    @property
    def spec(self) -> PromptSpec:
        """The prompt's description."""
        ...

    @property
    def completion(self) -> Component:
        """The component that completes its arguments; accepts MCP's params without ``ref``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSpec(_ReadOnlySpec):
    """Frozen description of one resource or template.

    ``name`` is its key (P-12): URI, URI template, or the name of a resource without a URI.
    """

    @property
    def kind(self) -> Kind:
        """``Kind.RESOURCE``, also for a template."""
        return Kind.RESOURCE


class Resource(Component, Protocol):
    """A resource that can be read; its result has ``contents``.

    A resource that a template resolved has the template's spec.
    """

    @property
    def spec(self) -> ResourceSpec:
        """The description of the resource or of its template."""
        ...

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        """Call ``on_update`` on each update; return the function that unsubscribes.

        ``on_update`` must not raise or block. Subscriptions count towards the tenant's share.
        Raises ProxyError.
        """
        ...


class ResourceTemplate(Protocol):
    """A URI template: one list entry for many resources."""

    @property
    def spec(self) -> ResourceSpec:
        """The template's description."""
        ...

    @property
    def completion(self) -> Component:
        """The component that completes its variables; accepts MCP's params without ``ref``."""
        ...

    def at(self, uri: str) -> Resource | None:
        """Return the resource at ``uri``; None if the template does not match it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteComponents:
    """The components of servers, each kind in the view's order; keys can repeat (P-13)."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
