"""Checks shared by the executor and the explainer."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcp_tools_proxy.domain.budget import ChargedCall
from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT, ComponentSpec, ToolSpec
from mcp_tools_proxy.domain.errors import ContentBlocked, Forbidden
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.policy.blocklist import Blocked, Blocklist, declared_path
from mcp_tools_proxy.ratelimit.limiter import BudgetReading, exceeded
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote


def check_caller(caller: Caller, spec: ComponentSpec) -> None:
    """Raise Forbidden for a token that makes no calls.

    Also for an operator without the right to read documents who would read some.
    """
    if not caller.may_call:
        raise Forbidden(
            "the token makes no calls (execute is false); send a token of the calling application"
        )
    stand_in = caller.stand_in
    if stand_in is None or stand_in.reads_documents:
        return
    if spec.server_id is None and spec.needs_tenant:
        right = OperatorRight.DOCUMENTS
        raise Forbidden(
            f'the token does not have the operator right "{right}", which is needed to run '
            f"{spec.name} for another user; send a token that has it"
        )


async def check_blocklist(blocklist: Blocklist, spec: ComponentSpec, call: Call) -> None:
    """Raise ContentBlocked if an argument chosen by the caller contains a blocked keyword."""
    if blocklist.is_long(call.arguments, call.filled_in):
        blocked = await asyncio.to_thread(blocklist.find, call.arguments, call.filled_in)
    else:
        blocked = blocklist.find(call.arguments, call.filled_in)
    if blocked is not None:
        raise _content_blocked(spec, blocked)


def _content_blocked(spec: ComponentSpec, blocked: Blocked) -> ContentBlocked:
    """Build the error; its message names the argument, and the keyword is only logged."""
    if isinstance(spec, ToolSpec):
        schema = spec.input_schema
    else:
        schema = {"properties": {name: {} for name in spec.argument_names}}
    argument = declared_path(blocked.path, schema)
    named = f"the argument {quote(argument)}" if argument else "an argument"
    return ContentBlocked(
        f"{named} has a word that is blocked here; use other words, or tell the user",
        details={"argument": argument[:QUOTE_CHARS]} if argument else None,
        reason=blocked.keyword,
    )


def recorded_call(spec: ComponentSpec, call: Call, completed: Call) -> Call:
    """Return the call to record: with the document filled in for it, if any.

    Other completed arguments are not recorded. Arguments sent under an alias get the server's
    names.
    """
    if spec.server_id is not None:
        return _with_names(spec, call, completed)
    document = completed.arguments.get(DOCUMENT_ARGUMENT)
    if document == call.arguments.get(DOCUMENT_ARGUMENT):
        return call
    return replace(call, arguments={**call.arguments, DOCUMENT_ARGUMENT: document})


def _with_names(spec: ComponentSpec, call: Call, completed: Call) -> Call:
    aliases = spec.argument_aliases if isinstance(spec, ToolSpec) else None
    renamed = {
        alias: name
        for name, alias in (aliases or {}).items()
        if alias in call.arguments and alias not in completed.arguments
    }
    if not renamed:
        return call
    named = {renamed.get(key, key): value for key, value in call.arguments.items()}
    return replace(call, arguments=named)


def with_defaults_of(call: Call, parsed: object) -> Call:
    """Return a tool's call with the arguments that its server receives.

    Missing ones can have their schema's default, which runs count and policies see.
    """
    if call.kind is not Kind.TOOL or parsed is call.arguments or not isinstance(parsed, Mapping):
        return call
    return replace(call, arguments=parsed)


def charged_call(spec: ComponentSpec, call: Call) -> ChargedCall:
    """Return the budgets and document to charge for a call."""
    caller = call.caller
    return ChargedCall(
        caller.tenant_id,
        caller.user_id,
        caller.agent,
        spec.server_id,
        spec.name if isinstance(spec, ToolSpec) else None,
        _named_document(spec, call),
    )


def reads_any_document(spec: ComponentSpec, charged: ChargedCall) -> bool:
    """Return whether a result depends on the caller's current access to documents.

    This applies to the gateway's own tools without a document argument: lists and searches. Their
    results are never replayed for an idempotency key, because access may have changed.
    """
    return spec.server_id is None and charged.doc_id is None


def _named_document(spec: ComponentSpec, call: Call) -> str | None:
    if DOCUMENT_ARGUMENT not in spec.argument_names:
        return None
    value = call.arguments.get(DOCUMENT_ARGUMENT)
    return None if value is None else str(value)


def raise_if_exceeded(budgets: Sequence[BudgetReading]) -> None:
    """Raise RateLimitExceeded for the budget that refuses the call; the tenant's take
    precedence.
    """
    spent = [it for it in budgets if not it.remaining]
    tenants = [it for it in spent if it.budget.charged_to == "tenant"]
    if spent:
        last = max(tenants or spent, key=lambda it: it.reset_s)
        raise exceeded(last.budget, last.reset_s)
