"""A resource: something readable by URI; a template stands for every URI that it matches."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from mcp_tools_proxy.domain.caller import NO_TENANT, Kind
from mcp_tools_proxy.domain.component import Component, JsonObject


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
