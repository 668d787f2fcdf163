"""Resource subscriptions, limited to resources that the caller may read now."""

from collections.abc import Callable

from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.gateway.call_checks import check_caller
from mcp_tools_proxy.gateway.first_attempts import FirstAttempts
from mcp_tools_proxy.gateway.lifecycle import Lifecycle
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.registry.registry import Registry


class Subscriptions:
    """Subscribes callers to resource updates, which are not charged."""

    def __init__(
        self, *, first_attempts: FirstAttempts, lifecycle: Lifecycle, run_checks: RunChecks
    ) -> None:
        self._first_attempts = first_attempts
        self._lifecycle = lifecycle
        self._run_checks = run_checks

    async def subscribe(self, call: Call, on_update: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_update`` whenever the resource of ``call`` changes.

        Returns a function that ends the subscription. Updates are dropped while the caller may not
        read the resource, for example after a reload. ``on_update`` must not raise or block. Raises
        the ProxyError of reading the resource, also of its run and of policies, because the server
        receives its URI; TOOL_FAILED if its server does not support subscriptions.
        """
        self._lifecycle.check_serving()

        def notify() -> None:
            if self._may_read(call):
                on_update()

        resource, _ = await self._first_attempts.find(call, Registry.resource)
        check_caller(call.caller, resource.spec)
        if self._run_checks.apply_to(call):
            await self._run_checks.decide(call, resource.spec)
        return await resource.subscribe(notify, call.caller)

    def _may_read(self, call: Call) -> bool:
        try:
            self._first_attempts.registry.current.resource(call)
        except ProxyError:
            return False
        return True
