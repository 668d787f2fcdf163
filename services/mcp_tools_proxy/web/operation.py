"""What an operator does in a request, kept in its scope until the record of it is written."""

from collections.abc import Mapping

from starlette.types import Scope

from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.telemetry.recorder import cut

_KEY = "mcp_tools_proxy.operation"

RIGHT_USED = "operator.right_used"
"""The event of an operation that has no other."""


class RightUse:
    """One use of an operator's right; the gate begins it, and handlers add what was done."""

    __slots__ = ("event", "fields")

    def __init__(
        self, right: OperatorRight, tenant_id: str | None, token_fields: Mapping[str, str]
    ) -> None:
        self.event = RIGHT_USED
        self.fields: dict[str, object] = {"right": right.value}
        if tenant_id is not None:
            self.fields["tenant_id"] = cut(tenant_id)
        self.fields |= token_fields


def begin_operation(scope: Scope, operation: RightUse) -> None:
    """Keep the operation of a request."""
    scope[_KEY] = operation


def operation_of(scope: Scope) -> RightUse | None:
    """Return the operation of a request; None if it uses no operator's right."""
    found: RightUse | None = scope.get(_KEY)
    return found


def add_to_operation(scope: Scope, event: str | None = None, **fields: object) -> None:
    """Add to the record of a request's operation what was done: an event of its own, and fields."""
    operation = operation_of(scope)
    if operation is not None:
        operation.event = event or operation.event
        operation.fields |= fields
