"""Resolves unlisted URIs through matching resource templates."""

from collections.abc import Iterator, Sequence

from mcp_tools_proxy.domain.components import ComponentSpec, Resource, ResourceTemplate
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.policy.visibility import Denial, Offers, Permissions, decide
from mcp_tools_proxy.registry.access_rules import WITHOUT_AGENT
from mcp_tools_proxy.registry.component_table import ComponentTable
from mcp_tools_proxy.wire.uris import has_own_scheme


class TemplateResolver:
    """Finds the resource of a URI, unless the entry of its server excludes it (A-01)."""

    def __init__(self, templates: ComponentTable[ResourceTemplate], offers: Offers) -> None:
        self._templates = templates
        self._offers = offers

    def find(self, uri: str, permissions: Permissions) -> Sequence[Resource]:
        """Return the resource of each server that has a template for ``uri``.

        The first matching template of a server is used; without an agent, only the first server.
        Unless exactly one server matches, ``server_id:uri`` is tried as well.
        """
        return self._find(self._templates.visible_to(permissions), uri, permissions)

    def denied(self, uri: str, permissions: Permissions) -> tuple[Denial, ComponentSpec] | None:
        """Return the denial and the template of a URI that other callers may read."""
        others = self._find(self._templates.items, uri, WITHOUT_AGENT)
        if not others:
            return None
        spec = others[0].spec
        return decide(permissions, spec) or Denial.EXCLUDED, spec

    def _find(
        self, templates: Sequence[ResourceTemplate], uri: str, permissions: Permissions
    ) -> Sequence[Resource]:
        found: dict[str | None, Resource] = {}
        for template in templates:
            server_id = template.spec.server_id
            if server_id not in found and (resource := self._at(template, uri, permissions)):
                found[server_id] = resource
                if permissions.agent is None:
                    break
        if len(found) == 1:
            return tuple(found.values())
        owned = next(self._owned(templates, uri, permissions, whole_uris=bool(found)), None)
        return tuple(found.values()) if owned is None else (owned,)

    def _owned(
        self,
        templates: Sequence[ResourceTemplate],
        uri: str,
        permissions: Permissions,
        *,
        whole_uris: bool,
    ) -> Iterator[Resource]:
        """Yield the resources of ``uri`` read as ``server_id:uri``.

        With ``whole_uris``, the rest must have a scheme: otherwise ``notes://x`` would also be read
        as ``//x`` of the server ``notes``.
        """
        for template in templates:
            if template.spec.server_id is None:
                continue
            prefix = qualified_name(template.spec.server_id, "")
            bare = uri.removeprefix(prefix)
            if bare == uri or (whole_uris and ":" not in bare):
                continue
            if resource := self._at(template, bare, permissions):
                yield resource

    def _at(
        self, template: ResourceTemplate, uri: str, permissions: Permissions
    ) -> Resource | None:
        """Return the resource of a URI that matches a template; None if it is excluded (A-20).

        URIs with the gateway's own scheme never belong to a server, even if ``{+uri}`` matches.
        """
        server_id = template.spec.server_id
        if server_id is not None and has_own_scheme(uri):
            return None
        resource = template.at(uri)
        if resource is None or self._offers.excludes_uri(server_id, uri, permissions):
            return None
        return resource
