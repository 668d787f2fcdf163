"""What can be listed and used by name: a tool, a prompt or a resource."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mcp_tools_proxy.domain.caller import Call, Kind

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run gave: ``value`` is a JSON object, ``tokens`` what it costs its budgets (§2).

    ``max_bytes`` is what it may have as JSON; None is the gateway's own limit. One that
    ``asks_for_input`` is no result yet: ``value`` is MCP's InputRequiredResult as the server sent
    it. Only a call whose client ``resumes`` gets such a one.
    """

    value: JsonObject
    tokens: int
    max_bytes: int | None = None
    asks_for_input: bool = False


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
        """Check the arguments; what it returns goes to ``run`` unchanged.

        Raises InvalidArguments, and the *_TOO_LARGE errors that follow from arguments alone.
        """
        ...

    async def check_document(self, parsed: object, call: Call) -> None:
        """Check that the document which the arguments name is there for ``call.caller``.

        Raises AccessDenied, DocumentNotFound. Does nothing where that is not ours to know: for a
        server's tools, whatever they call ``doc_id``.
        """
        ...

    async def run(self, parsed: object, call: Call) -> Result:
        """Do the work for ``call.caller``. Raises ProxyError; cancelling stops the work."""
        ...


class NamesNoDocument:
    """Base of components that name no document of ours."""

    __slots__ = ()

    async def check_document(self, parsed: object, call: Call) -> None:
        """Check nothing."""
