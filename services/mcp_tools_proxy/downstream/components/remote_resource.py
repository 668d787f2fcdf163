"""A resource of a downstream server, and a template of resources, as components."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.components import JsonObject, NamesNoDocument, ResourceSpec, Result
from mcp_tools_proxy.domain.errors import (
    InvalidArguments,
    ProxyError,
    ResourceNotFound,
)
from mcp_tools_proxy.domain.offers.view import Route
from mcp_tools_proxy.downstream.components.completion import Completion
from mcp_tools_proxy.downstream.components.normalize import normalise_resource_result
from mcp_tools_proxy.downstream.components.remote_call import (
    RemoteCall,
    RemoteTarget,
    input_required,
    tool_failed_from,
)
from mcp_tools_proxy.downstream.offered_items import UriPattern
from mcp_tools_proxy.downstream.reconnecting_session import ReconnectingSession
from mcp_tools_proxy.wire.json_rpc import JsonRpcError
from mcp_tools_proxy.wire.text import quote
from mcp_tools_proxy.wire.uris import is_normalized_path

APP_SCHEME = "ui://"
"""The scheme of MCP Apps: pages of HTML, 235 kB to 1.3 MB on real servers."""

NOT_FOUND_CODES = frozenset({-32002, -32602})
"""The JSON-RPC codes for an unknown resource: before and since MCP 2026-07-28."""


@dataclass(frozen=True, slots=True)
class RemoteResource(NamesNoDocument):
    """Reads ``uri`` from one server; the request may be repeated."""

    spec: ResourceSpec
    target: RemoteTarget
    uri: str

    @classmethod
    def build(cls, route: Route, session: ReconnectingSession) -> Self:
        """Build the resource of a route."""
        spec = ResourceSpec(
            name=route.name,
            server_id=route.server_id,
            as_mcp=route.shown,
            exchanges_jwt=session.config.exchanges_jwt,
        )
        return cls(spec, RemoteTarget(session, spec, route.name), route.name)

    def parse(self, arguments: JsonObject) -> None:
        """Accept no arguments: the URI identifies all. Raises InvalidArguments."""
        if arguments:
            raise InvalidArguments("a resource takes a uri only; leave the other arguments out")

    async def call(self, parsed: object, call: Call) -> Result:
        """Read the resource. Raises ResourceNotFound, ToolFailed."""
        with RemoteCall(self.target, call) as remote:
            try:
                raw = await remote.send("resources/read", {"uri": self.uri})
            except JsonRpcError as error:
                raise self._error_from(error) from None
            if input_required(raw):
                return remote.input_required_result(raw)
            result = normalise_resource_result(raw)
            valid = remote.valid_result(result, self._label, "a resource's contents")
            if not self.uri.startswith(APP_SCHEME):
                return valid
            return replace(valid, max_bytes=self.target.session.config.max_app_bytes)

    async def subscribe(self, on_update: Callable[[], None], caller: Caller) -> Callable[[], None]:
        """Subscribe to the resource; all listeners of a session share one subscription there.

        Returns the function that unsubscribes. Raises ProxyError.
        """
        session = self.target.session
        try:
            if session.lease is None:
                return await session.sender.subscribe(self.uri, on_update, caller.tenant_id)
            async with session.lease(caller, 0.0) as (own, _):
                return await own.sender.subscribe(self.uri, on_update, caller.tenant_id)
        except JsonRpcError as error:
            raise self._error_from(error) from None

    def _error_from(self, error: JsonRpcError) -> ProxyError:
        if error.code in NOT_FOUND_CODES:
            server_id = self.spec.server_id
            return ResourceNotFound(
                f"server {server_id} has no resource {quote(self.uri)}; list the resources to see "
                "which exist"
            )
        return tool_failed_from(self._label, error)

    @property
    def _label(self) -> str:
        return f"resource {quote(self.spec.name)}"


@dataclass(frozen=True, slots=True)
class RemoteTemplate:
    """Represents every URI that its template matches."""

    resource: RemoteResource
    pattern: UriPattern

    @classmethod
    def build(cls, route: Route, session: ReconnectingSession) -> Self:
        """Build the template of a route; discovery has checked that the template parses."""
        resource = RemoteResource.build(route, session)
        return cls(resource, UriPattern(route.name))

    @property
    def spec(self) -> ResourceSpec:
        """The description of the template."""
        return self.resource.spec

    @property
    def completion(self) -> Completion:
        """The component that completes the template's variables."""
        ref = {"type": "ref/resource", "uri": self.resource.uri}
        return Completion(self.spec, self.resource.target, ref)

    def at(self, uri: str) -> RemoteResource | None:
        """Return the resource at ``uri``; None if the template does not match.

        A URI that is too long or contains ``..`` never matches: ``..`` could leave the template's
        folder.
        """
        if not self.pattern.matches(uri) or not is_normalized_path(uri):
            return None
        return replace(self.resource, uri=uri)
