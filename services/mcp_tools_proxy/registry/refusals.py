"""Refuses hidden items: every error for a name that a caller may not use, or that is unknown.

Tools, prompts and resources get the same wording. A message has only the name that the caller
sent, the caller's agent and names that the caller may use, so it reveals no hidden item (A-09,
A-11). Which part of the profile refused goes to the log only.
"""

from collections.abc import Iterable, Mapping, Sequence

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.errors import (
    AmbiguousName,
    NotAllowed,
    PromptNotAllowed,
    PromptNotFound,
    ProxyError,
    ResourceNotAllowed,
    ResourceNotFound,
    ToolNotAllowed,
    ToolNotFound,
)
from mcp_tools_proxy.policy.definitions.withheld_items import WithheldItems
from mcp_tools_proxy.policy.visibility import Denial
from mcp_tools_proxy.registry.access_rules import Permissions
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean, join_first
from mcp_tools_proxy.wire.text import quote

EXPECTED_NAME = "the name of a tool that list_available_tools shows, or server_id:tool"

NEAR_MISS = 0.75
"""Least similarity of a misspelt name of a server's tool."""

MAX_CANDIDATES = 5
"""How many candidates a message names; ``details`` has them all."""

_NOT_ALLOWED: Mapping[Kind, type[NotAllowed]] = {
    Kind.TOOL: ToolNotAllowed,
    Kind.PROMPT: PromptNotAllowed,
    Kind.RESOURCE: ResourceNotAllowed,
}


def raise_if_denied(
    kind: Kind,
    name: str,
    denial: Denial | None,
    permissions: Permissions,
    near: str | None = None,
) -> None:
    """Raise NotAllowed for a denial, and for any name that the agent's profile excludes.

    So an excluded name is refused in the same way, whether or not some server offers it. ``near``
    is the visible name that the caller may mean.
    """
    if denial is Denial.TENANT:
        raise _tenant_required(kind, name)
    if permissions.agent is None:
        return
    if denial is None and permissions.visibility.excluded.matches(kind, None, name):
        denial = Denial.EXCLUDED
    if denial is not None:
        raise _not_allowed(kind, name, permissions.agent, denial, near=near)


def raise_if_withheld(
    kind: Kind,
    name: str,
    withheld: WithheldItems,
    permissions: Permissions,
    reason: str,
    near: str | None = None,
) -> None:
    """Raise NotAllowed if ``name`` means an item that is withheld for its definition.

    The caller is not told why: who changed the definition would learn that it was noticed.
    """
    if withheld.find(kind, name) is None:
        return
    if permissions.agent is not None:
        raise _not_allowed(kind, name, permissions.agent, None, reason=reason, near=near)
    raise _outside_the_preset(kind, name, reason, near)


def raise_if_unknown_qualified(
    name: str, permissions: Permissions, reason: str, near: str | None
) -> None:
    """Raise ToolNotAllowed if ``name``, which resolves to no tool, is a ``server_id:tool``.

    It may be a tool outside the active preset, so it is refused like one (contract §6); ``reason``
    goes to the log only.
    """
    server_id, _, tool_name = name.partition(":")
    if not (server_id and tool_name):
        return
    if permissions.agent is not None:
        raise _not_allowed(Kind.TOOL, name, permissions.agent, None, reason=reason, near=near)
    raise _outside_the_preset(Kind.TOOL, name, reason, near)


def similar_tool(name: str, visible: Iterable[str]) -> str | None:
    """Return the visible tool of which a ``server_id:tool`` may be a misspelling.

    Of a server that the caller can use only its own tools are compared: with the same server in
    front, any two names are similar.
    """
    server_id, colon, tool_name = name.partition(":")
    known = tuple(visible) if colon else ()
    prefix = f"{server_id}:"
    of_server = [it.removeprefix(prefix) for it in known if it.startswith(prefix)]
    if not of_server:
        return closest_match(name, known, least=NEAR_MISS)
    match = closest_match(tool_name, of_server, least=NEAR_MISS)
    return None if match is None else prefix + match


def not_found(
    kind: Kind, name: str, visible: Iterable[str], *, reason: str | None = None
) -> ProxyError:
    """Build the error for an unknown name, with the ``visible`` name most like it (F-07, F-15).

    ``reason`` goes to the log only: why a prompt or resource of that name is hidden.
    """
    near = _suggest(name, visible)
    match kind:
        case Kind.TOOL:
            hint = did_you_mean(near, f"; use {EXPECTED_NAME}")
            return ToolNotFound(
                f"no tool is named {quote(name)}{hint}",
                details={"expected": EXPECTED_NAME, **({"did_you_mean": near} if near else {})},
            )
        case Kind.PROMPT:
            hint = did_you_mean(near, "; list the prompts to see which exist")
            return PromptNotFound(f"no prompt is named {quote(name)}{hint}", reason=reason)
        case Kind.RESOURCE:
            hint = did_you_mean(near, "; list the resources to see which exist")
            return ResourceNotFound(f"no resource has the URI {quote(name)}{hint}", reason=reason)


def ambiguous(name: str, candidates: Sequence[str]) -> AmbiguousName:
    """Build the error for a name of several components; ``candidates`` are their full names."""
    shown = join_first(candidates, quote, limit=MAX_CANDIDATES, separator=", ", more=" or {} more")
    return AmbiguousName(
        f"{quote(name)} is ambiguous: {len(candidates)} servers have it; put the server in front: "
        f"{shown}",
        details={"candidates": candidates},
    )


def _outside_the_preset(kind: Kind, name: str, reason: str, near: str | None) -> NotAllowed:
    """Build the error for a caller without an agent; ``reason`` goes to the log only."""
    listed = "list_available_tools shows" if kind is Kind.TOOL else f"the list of {kind.value}s has"
    return _NOT_ALLOWED[kind](
        f"{kind.value} {quote(name)} cannot be used: the active preset does not allow it, or its "
        f"server does not offer it{did_you_mean(near, f'; use one that {listed}')}",
        reason=reason,
        details={"did_you_mean": near} if near else None,
    )


def _not_allowed(
    kind: Kind,
    name: str,
    agent: str,
    denial: Denial | None,
    *,
    reason: str = "",
    near: str | None = None,
) -> NotAllowed:
    """Build the error for an agent whose profile denies ``name``.

    ``denial`` is None for a name that is hidden for another ``reason``. The message is the same, so
    that an agent cannot find out whether a hidden item exists.
    """
    otherwise = f"; use one from that agent's list of {kind.value}s"
    return _NOT_ALLOWED[kind](
        f"{kind.value} {quote(name)} is not permitted for agent {quote(agent)}"
        f"{did_you_mean(near, otherwise)}",
        reason=reason if denial is None else f"the agent's {denial.value}",
        details={"did_you_mean": near} if near else None,
    )


def _tenant_required(kind: Kind, name: str) -> NotAllowed:
    """Build the error for a caller without a tenant that names a tool for documents."""
    return _NOT_ALLOWED[kind](
        f"{kind.value} {quote(name)} works on a tenant's documents, and the request names no "
        "tenant; send X-Tenant-Id or a tenant's token, or an operator can set "
        "MCP_PROXY_DEFAULT_TENANT_ID",
        reason="the request names no tenant",
    )


def _suggest(name: str, known: Iterable[str]) -> str | None:
    """Return what ``name`` may stand for: a server's item of that name, else a similar name."""
    known = tuple(known)
    with_server = f":{name}"
    owned = next((candidate for candidate in known if candidate.endswith(with_server)), None)
    return owned or closest_match(name, known)
