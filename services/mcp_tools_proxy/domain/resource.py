"""A resource: something readable by URI; a template stands for every URI that it matches."""

from dataclasses import dataclass, field
from typing import Protocol

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


class Resource(Component, Protocol):
    """A resource to be read; its result has ``contents``. It reads the URI that ``call`` names."""

    @property
    def spec(self) -> ResourceSpec:
        """Describe the resource."""
        ...


class ResourceTemplate(Resource, Protocol):
    """A resource that stands for many URIs."""

    def matches(self, uri: str) -> bool:
        """Tell whether ``uri`` is one of those that the template stands for."""
        ...
