"""Resolves the names that callers use, and refuses those that a caller may not use."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Prompt, Resource, ResourceTemplate, Tool
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.visibility import Denial
from mcp_tools_proxy.registry.mcp_lists import McpListings
from mcp_tools_proxy.registry.refusals import (
    ambiguous,
    check_denied,
    not_allowed,
    not_found,
    not_in_preset,
)
from mcp_tools_proxy.registry.component_table import ItemT, Table, Viewer
from mcp_tools_proxy.registry.template_resolver import TemplateResolver
from mcp_tools_proxy.registry.unlisted_offers import UnlistedOffers


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResolver:
    """Resolves the names of a registry: they are looked up, never parsed (contract §6).

    - A tool is found by its name, else its alias, else its bare name; the last for agents, and for
      every caller if MCP lists show bare names.
    - A prompt or resource is found by ``server_id:name``, else its bare name.
    - Any other URI is resolved through a template that matches it.

    Nothing outside the tables is ever looked up (F-14).
    """

    tools: Table[Tool]
    prompts: Table[Prompt]
    resources: Table[Resource]
    templates: Table[ResourceTemplate]
    template_resolver: TemplateResolver
    listings: McpListings
    unlisted_offers: UnlistedOffers

    def tool(self, name: str, viewer: Viewer) -> Tool:
        """Return the tool of a name. Raises ToolNotFound, ToolNotAllowed, AmbiguousName."""
        tool = _only(self.tools.find(name, viewer), name)
        if tool is not None:
            return tool
        check_denied(Kind.TOOL, self.tools.denial(name, viewer), name, viewer)
        server_id, _, tool_name = name.partition(":")
        if not (server_id and tool_name):
            raise not_found(Kind.TOOL, name, (t.spec.name for t in self.tools.visible_to(viewer)))
        if viewer.agent is not None:
            raise not_allowed(Kind.TOOL, name, viewer.agent, None)
        raise not_in_preset(name)

    def prompt(self, name: str, viewer: Viewer) -> Prompt:
        """Return the prompt of a name. Raises PromptNotFound, PromptNotAllowed, AmbiguousName."""
        prompt = _only(self.prompts.find(name, viewer), name)
        if prompt is not None:
            return prompt
        check_denied(Kind.PROMPT, self.prompts.denial(name, viewer), name, viewer)
        raise self._not_found(Kind.PROMPT, name, self.listings.prompts.names_for(viewer))

    def resource(self, uri: str, viewer: Viewer) -> Resource:
        """Return the resource of a URI, or one of a template that matches it.

        Raises ResourceNotFound, ResourceNotAllowed, AmbiguousName.
        """
        found = self.resources.find(uri, viewer) or self.template_resolver.find(uri, viewer)
        resource = _only(found, uri)
        if resource is not None:
            return resource
        check_denied(Kind.RESOURCE, self._resource_denial(uri, viewer), uri, viewer)
        raise self._not_found(Kind.RESOURCE, uri, self.listings.resources.names_for(viewer))

    def template(self, name: str, viewer: Viewer) -> ResourceTemplate:
        """Return the resource template of a listed name. Raises as ``resource`` does."""
        template = _only(self.templates.find(name, viewer), name)
        if template is not None:
            return template
        check_denied(Kind.RESOURCE, self.templates.denial(name, viewer), name, viewer)
        raise self._not_found(Kind.RESOURCE, name, self.listings.templates.names_for(viewer))

    def _resource_denial(self, uri: str, viewer: Viewer) -> Denial | None:
        """Return what denies a URI to ``viewer``: an exclusion, or a denial of its resource."""
        if viewer.visibility.excluded.matches_uri(None, uri):
            return Denial.EXCLUDED
        denial = self.resources.denial(uri, viewer)
        return denial or self.template_resolver.denial(uri, viewer)

    def _not_found(self, kind: Kind, name: str, visible: Iterable[str]) -> ProxyError:
        return not_found(kind, name, visible, reason=self.unlisted_offers.reason(kind, name))


def _only(found: Sequence[ItemT], name: str) -> ItemT | None:
    """Return the one item found for a name, None if there is none. Raises AmbiguousName."""
    if len(found) > 1:
        raise ambiguous(name, [qualified_name(it.spec.server_id or "", name) for it in found])
    return found[0] if found else None
