"""The outcome of a call."""

from typing import NamedTuple

from mcp_tools_proxy.domain.audit import NO_REGISTRY, RegistryVersion
from mcp_tools_proxy.domain.budget import BudgetStatus
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import ComponentSpec, JsonObject
from mcp_tools_proxy.domain.document import DocumentRead
from mcp_tools_proxy.domain.errors import ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.guards import GuardFinding

CANCELLED = "CANCELLED"
"""The ``code`` of a call whose caller disconnected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    """A successful call of ``spec``'s component; ``result_json`` is the encoded ``result``.

    With ``input_required`` the call is unfinished: ``result`` is a server's InputRequiredResult.
    ``replayed`` marks the outcome of an earlier call with the same idempotency key. ``budget`` is
    the charged one with the smallest remaining share, if any. ``read`` and ``reads_untrusted`` are
    those of ``Result``.
    """

    spec: ComponentSpec
    result: JsonObject
    result_json: bytes
    tokens: int
    input_required: bool = False
    replayed: bool = False
    budget: BudgetStatus | None = None
    read: tuple[DocumentRead, ...] = ()
    reads_untrusted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A refused or failed call with a stable code; ``replayed`` and ``budget`` as in Ok.

    ``spec`` can be None if the component is unknown.
    """

    error: ProxyError
    replayed: bool = False
    budget: BudgetStatus | None = None
    spec: ComponentSpec | None = None


Outcome = Ok | Failed


class PolicyNote(NamedTuple):
    """A policy that fired: its id, its mode, and its message if it has one."""

    policy_id: str
    mode: str
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class RunNote:
    """The run in a call's record; ``number`` is the call's number from 1, None if it was not sent.

    ``policies`` fired. ``read`` are the documents in the answer, ``approval_id`` the approval that
    the call used.
    """

    run_id: str | None = None
    number: int | None = None
    labels: tuple[str, ...] = ()
    policies: tuple[PolicyNote, ...] = ()
    read: tuple[DocumentRead, ...] = ()
    approval_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """One finished call, for log and metrics.

    ``spec`` is missing for an unknown name, ``outcome`` for a cancelled call. ``registry`` resolved
    the call; ``document_version`` belongs to the document in its arguments. ``is_charged`` means
    that a budget was charged, ``has_audit_place`` that a place for its record was reserved.
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
    was_sent: bool = False
    run: RunNote | None = None
    """None without a run and without policies."""

    @property
    def code(self) -> str:
        """The code for log and metrics."""
        match self.outcome:
            case Ok():
                return "OK"
            case Failed(error=error):
                return error.code
            case None:
                return CANCELLED
