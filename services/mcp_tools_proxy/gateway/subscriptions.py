"""Subscribing to resources: only to what the caller may read, and only while it may."""

from collections.abc import Callable

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.registry.registry import Registry, RegistryHolder


class Subscriptions:
    """Lets callers hear of the updates of resources. They are no calls: nothing is charged."""

    def __init__(
        self, *, registry: RegistryHolder, first_attempts: FirstAttempts, lifecycle: Lifecycle
    ) -> None:
        self._registry = registry
        self._first_attempts = first_attempts
        self._lifecycle = lifecycle

    async def subscribe(self, call: Call, on_update: Callable[[], None]) -> Callable[[], None]:
        """Have ``on_update`` called when the resource changed that the call names by its URI.

        It is called while the caller may read the resource, until what is returned is called; it
        must not raise or wait. Raises ProxyError as reading it would; TOOL_FAILED when its server
        has no subscriptions.
        """
        self._lifecycle.check_serving()

        def tell() -> None:
            if self._may_read(call):
                on_update()

        resource, _ = await self._first_attempts.find(call, Registry.resource)
        return await resource.watch(tell, call.caller.tenant_id)

    def _may_read(self, call: Call) -> bool:
        try:
            self._registry.current.resource(call)
        except ProxyError:
            return False
        return True
