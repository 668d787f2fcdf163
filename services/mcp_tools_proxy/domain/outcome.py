"""How a call ended."""

from mcp_tools_proxy.domain.audit import NO_REGISTRY, RegistryVersion
from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import GuardFinding

CANCELLED = "CANCELLED"
"""The ``code`` of a call whose caller disconnected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    """The call of ``spec``'s component succeeded; ``result_json`` is ``result`` encoded once.

    With ``input_required`` the call has not ended: ``result`` is a server's InputRequiredResult.
    ``replayed``: it is the outcome of an earlier call with the same idempotency key. ``budget`` is
    the one with the smallest share left; None if no budget has admitted or refused the call.
    """

    spec: ComponentSpec
    result: JsonObject
    result_json: bytes
    tokens: int
    input_required: bool = False
    replayed: bool = False
    budget: BudgetStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call was refused or failed with a stable code; ``replayed`` and ``budget`` as in Ok.

    ``spec`` is None where no component is known.
    """

    error: ProxyError
    replayed: bool = False
    budget: BudgetStatus | None = None
    spec: ComponentSpec | None = None


Outcome = Ok | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One finished call, for log and metrics.

    ``spec`` is None when no component has the call's name; ``outcome`` is None when the call was
    cancelled. ``registry`` is the version of the registry on which it was resolved, and
    ``document_version`` that of the document that it names. ``is_charged``: a budget was charged
    for it. ``has_audit_place``: a place for its
    record was reserved.
    """

    call: Call
    spec: ComponentSpec | None
    outcome: Outcome | None
    duration_s: float
    registry: RegistryVersion = NO_REGISTRY
    document_version: str | None = None
    is_charged: bool = True
    has_audit_place: bool = False
    guards: tuple[GuardFinding, ...] = ()
    """What guards found in its arguments and its result."""
    was_sent: bool = False
    """Whether a request of it went to a server."""

    @property
    def code(self) -> str:
        """The code that the call is logged and counted under."""
        match self.outcome:
            case Ok():
                return "OK"
            case Failed(error=error):
                return error.code
            case None:
                return CANCELLED
