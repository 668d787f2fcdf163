"""The limits of a server's calls in flight: of all of them, and of one tenant's."""

from mcp_tools_proxy.domain.errors import ServerBusy
from mcp_tools_proxy.domain.server import ServerConfig
from mcp_tools_proxy.policy.tenant_share import tenant_share


class CallLimit:
    """Counts the calls in flight at one server, over all of its sessions."""

    def __init__(self, config: ServerConfig) -> None:
        self.in_flight = 0
        self._of_tenant: dict[str, int] = {}
        """How many calls in flight each tenant has."""
        self._tenant_limit = config.max_calls_in_flight_per_tenant or tenant_share(
            config.max_calls_in_flight
        )
        self._config = config

    def __repr__(self) -> str:
        return f"<CallLimit {self._config.server_id} in_flight={self.in_flight}>"

    def enter(self, tenant_id: str) -> None:
        """Count a call in until ``leave`` counts it out. Raises ServerBusy."""
        if self.in_flight >= self._config.max_calls_in_flight:
            raise self._busy()
        of_tenant = self._of_tenant.get(tenant_id, 0)
        if of_tenant >= self._tenant_limit:
            raise self._busy_for_tenant()
        self.in_flight += 1
        self._of_tenant[tenant_id] = of_tenant + 1

    def leave(self, tenant_id: str) -> None:
        """Count a call out."""
        self.in_flight -= 1
        of_tenant = self._of_tenant.pop(tenant_id) - 1
        if of_tenant:  # no entry for an idle tenant: there may be any number of tenants
            self._of_tenant[tenant_id] = of_tenant

    def _busy(self) -> ServerBusy:
        server_id, limit = self._config.server_id, self._config.max_calls_in_flight
        return ServerBusy(
            f"server {server_id} has reached its limit of {limit} running calls; try again when "
            "some of them have finished",
            details={"server_id": server_id, "max_calls_in_flight": limit},
        )

    def _busy_for_tenant(self) -> ServerBusy:
        server_id, limit = self._config.server_id, self._tenant_limit
        return ServerBusy(
            f"your tenant has reached its limit of {limit} running calls on server {server_id}; "
            "try again when some of them have finished",
            details={"server_id": server_id, "max_calls_in_flight_per_tenant": limit},
        )
