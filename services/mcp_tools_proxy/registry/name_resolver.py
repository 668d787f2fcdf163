"""Resolves the names that callers use; the errors of names that do not are in ``refusals``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import Prompt, Resource, ResourceTemplate, Tool
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.item_reasons import Why, reason_of
from mcp_tools_proxy.policy.visibility import Denial
from mcp_tools_proxy.registry.access_rules import Permissions
from mcp_tools_proxy.registry.component_table import ComponentTable, ItemT
from mcp_tools_proxy.registry.mcp_lists import McpListings
from mcp_tools_proxy.registry.refusals import (
    ambiguous,
    not_found,
    raise_if_denied,
    raise_if_unknown_qualified,
    raise_if_withheld,
    similar_tool,
)
from mcp_tools_proxy.registry.template_resolver import TemplateResolver
from mcp_tools_proxy.registry.unlisted_offers import UnlistedOffers


@dataclass(frozen=True, slots=True, kw_only=True)
class NameResolver:
    """Resolves the names of a registry: they are looked up, never parsed (contract §6).

    - A tool is found by its name, else its alias, else its bare name where that is unique in the
      caller's view: the preset's references to absent tools count as well.
    - A prompt or resource is found by ``server_id:name``, else its bare name.
    - Any other URI is resolved through a template that matches it.

    Nothing outside the tables is ever looked up (F-14).
    """

    tools: ComponentTable[Tool]
    prompts: ComponentTable[Prompt]
    resources: ComponentTable[Resource]
    templates: ComponentTable[ResourceTemplate]
    template_resolver: TemplateResolver
    listings: McpListings
    unlisted_offers: UnlistedOffers

    def tool(self, name: str, permissions: Permissions) -> Tool:
        """Return the tool of a name. Raises ToolNotFound, ToolNotAllowed, AmbiguousName."""
        found = self.tools.find(name, permissions)
        if len(found) == 1:
            return found[0]
        if candidates := self.tools.candidates(name, permissions):
            raise ambiguous(name, candidates)
        visible = [tool.spec.listed_name for tool in self.tools.visible_to(permissions)]
        near = similar_tool(name, visible)
        denial = self.tools.denial(name, permissions)
        raise_if_denied(Kind.TOOL, name, denial, permissions, near)
        self._raise_if_withheld(Kind.TOOL, name, permissions, near)
        reason = self.unlisted_offers.tool_reason(name)
        raise_if_unknown_qualified(name, permissions, reason, near)
        raise not_found(Kind.TOOL, name, visible)

    def prompt(self, name: str, permissions: Permissions) -> Prompt:
        """Return the prompt of a name. Raises PromptNotFound, PromptNotAllowed, AmbiguousName."""
        prompt = _only(self.prompts.find(name, permissions), name)
        if prompt is not None:
            return prompt
        raise_if_denied(Kind.PROMPT, name, self.prompts.denial(name, permissions), permissions)
        self._raise_if_withheld(Kind.PROMPT, name, permissions)
        raise self._not_found(Kind.PROMPT, name, self.listings.prompts.names_for(permissions))

    def resource(self, uri: str, permissions: Permissions) -> Resource:
        """Return the resource of a URI, or one of a template that matches it.

        Raises ResourceNotFound, ResourceNotAllowed, AmbiguousName.
        """
        found = self.resources.find(uri, permissions)
        resource = _only(found or self.template_resolver.find(uri, permissions), uri)
        if resource is not None:
            return resource
        raise_if_denied(Kind.RESOURCE, uri, self._resource_denial(uri, permissions), permissions)
        self._raise_if_withheld(Kind.RESOURCE, uri, permissions)
        raise self._not_found(Kind.RESOURCE, uri, self.listings.resources.names_for(permissions))

    def template(self, name: str, permissions: Permissions) -> ResourceTemplate:
        """Return the resource template of a listed name. Raises as ``resource`` does."""
        template = _only(self.templates.find(name, permissions), name)
        if template is not None:
            return template
        raise_if_denied(Kind.RESOURCE, name, self.templates.denial(name, permissions), permissions)
        self._raise_if_withheld(Kind.RESOURCE, name, permissions)
        raise self._not_found(Kind.RESOURCE, name, self.listings.templates.names_for(permissions))

    def _resource_denial(self, uri: str, permissions: Permissions) -> Denial | None:
        """Return what denies a URI to the caller: an exclusion, or a denial of its resource."""
        if permissions.visibility.excluded.matches_uri(None, uri):
            return Denial.EXCLUDED
        denial = self.resources.denial(uri, permissions)
        return denial or self.template_resolver.denial(uri, permissions)

    def _raise_if_withheld(
        self, kind: Kind, name: str, permissions: Permissions, near: str | None = None
    ) -> None:
        offers = self.unlisted_offers
        for withheld, why in ((offers.quarantine, Why.QUARANTINED), (offers.guarded, Why.GUARDED)):
            raise_if_withheld(kind, name, withheld, permissions, reason_of(why).text, near)

    def _not_found(self, kind: Kind, name: str, visible: Iterable[str]) -> ProxyError:
        return not_found(kind, name, visible, reason=self.unlisted_offers.reason(kind, name))


def _only(found: Sequence[ItemT], name: str) -> ItemT | None:
    """Return the one item found for a name, None if there is none. Raises AmbiguousName."""
    if len(found) > 1:
        raise ambiguous(name, [qualified_name(it.spec.server_id or "", name) for it in found])
    return found[0] if found else None
