"""Refusals of names without a match for the caller, with reason and rule for operators.

All kinds have the same wording. A message contains only the requested name, the caller's agent and
names that the caller may use, so that it reveals no hidden item (A-09, A-11). Reason and rule go
only to records and explanations.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mcp_tools_proxy.config.agents import AGENTS_FILE
from mcp_tools_proxy.config.json_file import json_path
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE
from mcp_tools_proxy.config.preset_files import preset_file
from mcp_tools_proxy.domain.audit import SETTINGS, RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import ComponentSpec
from mcp_tools_proxy.domain.configuration import EMPTY_PRESET
from mcp_tools_proxy.domain.definitions import LOCK_FILE, DefinitionKey
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
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS
from mcp_tools_proxy.policy.visibility import (
    OUTSIDE_THE_PRESET,
    Denial,
    Offers,
    Permissions,
    PresetScope,
    Why,
    reason_of,
)
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean, join_first
from mcp_tools_proxy.wire.text import quote
from mcp_tools_proxy.wire.uris import MAX_URI_CHARS

EXPECTED_NAME = "the name of a tool that list_available_tools shows, or server_id:tool"

NEAR_MISS = 0.75
"""Minimum similarity of a misspelt name of a server's tool."""

MAX_CANDIDATES = 5
"""Candidates named in a message; ``details`` has all of them."""

NO_PRESET = RuleSource(CONFIGURATION_FILE, "$.defaultPresetId")
"""The rule if no preset is active."""

NOT_AS_LOCKED = RuleSource(LOCK_FILE, "$.items")
"""The rule for quarantine."""

CHOSEN_TOOLS = RuleSource(SETTINGS, "MCP_PROXY_DOCUMENT_TOOLS")
"""The rule for a disabled document tool."""

DEFAULT_TENANT = RuleSource(SETTINGS, "MCP_PROXY_DEFAULT_TENANT_ID")

Denied = tuple[Denial, ComponentSpec]


class Refusals:
    """Builds the errors for names that callers may not use, or that do not exist."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._withheld: Mapping[tuple[Kind, str], DefinitionKey] | None = None

    def of(
        self,
        kind: Kind,
        name: str,
        caller: Permissions,
        denied: Denied | None,
        visible: Iterable[str],
    ) -> ProxyError:
        """Return the refusal of ``name``, which is not among the ``visible`` names.

        ``denied`` is the first item of that name that is denied to the caller. A name excluded by
        the profile gets the same refusal, offered or not.
        """
        place = caller.visibility.excluded.place_of(kind, None, name)
        denial = None if denied is None else denied[0]
        if place is not None and (denial is None or kind is Kind.RESOURCE):
            denial = Denial.EXCLUDED
        error = self._error(kind, name, caller.agent, denial, visible)
        if len(name) > MAX_URI_CHARS:  # item names are never longer
            return error
        if denied is not None:
            spec = denied[1]
            error.rule = self._denying_rule(denied, caller, name)
            error.denied_name, error.denied_server = spec.name, spec.server_id
        elif (key := self._find_withheld(kind, name)) is not None:
            error.rule, error.denied_server = self._withholding_rule(key), key.server_id
        else:
            server_id = error.denied_server = self._named_server(kind, name)
            if place is not None:
                error.rule = in_profile(caller.agent, "exclude_components", place)
            else:
                error.rule = self._hiding_rule(kind, name, server_id)
        return error

    def _error(
        self,
        kind: Kind,
        name: str,
        agent: str | None,
        denial: Denial | None,
        visible: Iterable[str],
    ) -> ProxyError:
        if denial is Denial.TENANT:
            return _tenant_required(kind, name)
        near = None
        if kind is Kind.TOOL:
            visible = tuple(visible)
            near = similar_tool(name, visible)
        if denial is not None and agent is not None:
            return _not_allowed(kind, name, agent, f"the agent's {denial.value}", near)
        key = self._find_withheld(kind, name)
        why = None if key is None else self._offers.withheld_for(key)
        if why in (Why.QUARANTINED, Why.GUARDED):
            # the caller is not told why: the author of the change would learn that it was noticed
            return _not_allowed(kind, name, agent, reason_of(why).text, near)
        server_id, _, bare_name = name.partition(":")
        if kind is Kind.TOOL and server_id and bare_name:
            # it can be a tool outside the active preset, and is refused like one (contract §6)
            return _not_allowed(kind, name, agent, self._reason(kind, server_id, bare_name), near)
        return _not_found(kind, name, visible, self._reason_for(kind, name))

    def _reason_for(self, kind: Kind, name: str) -> str | None:
        """Return why a prompt or resource is hidden; None if it is not offered."""
        server_id = None if kind is Kind.TOOL else self._named_server(kind, name)
        if server_id is None:
            return None
        return self._reason(kind, server_id, name.removeprefix(qualified_name(server_id, "")))

    def _reason(self, kind: Kind, server_id: str, name: str) -> str:
        reason = self._offers.reason(kind, server_id, name)
        return OUTSIDE_THE_PRESET if reason is None else reason.text

    def _find_withheld(self, kind: Kind, name: str) -> DefinitionKey | None:
        """Return the withheld item that a caller can mean by ``name``; None without one."""
        if self._withheld is None:
            offers = self._offers
            self._withheld = {
                **_names_of_all(offers.unbound, offers.scope),
                **_names_of_all(offers.guarded, offers.scope),
                **_names_of_all(offers.quarantined, offers.scope),
            }
        return self._withheld.get((kind, name))

    def _named_server(self, kind: Kind, name: str) -> str | None:
        """Return the server in a tool's name, or the one that offers a prompt or resource."""
        if kind is Kind.TOOL:
            named = name.partition(":")[0]
            return named if named in self._offers.servers else None
        for server_id, snapshot in self._offers.snapshots.items():
            prefix = qualified_name(server_id, "")
            if _offers(snapshot, kind, name) or (
                name.startswith(prefix) and _offers(snapshot, kind, name[len(prefix) :])
            ):
                return server_id
        return None

    def _denying_rule(self, denied: Denied, caller: Permissions, name: str) -> RuleSource | None:
        """Return the rule that denies an item to a caller that named it ``name``."""
        denial, spec = denied
        match denial:
            case Denial.TENANT:
                return DEFAULT_TENANT
            case Denial.SERVER | Denial.DOCUMENT_TOOLS:
                return in_profile(caller.agent, denial.value)
            case Denial.PRESET:
                return _in_preset(caller.visibility.preset or self._offers.scope, spec.kind)
            case Denial.BIND:
                return in_profile(caller.agent, "bind", spec.name)
            case Denial.EXCLUDED:
                excluded = caller.visibility.excluded
                place = excluded.place_of(spec.kind, spec.server_id, spec.bare_name)
                if place is None:  # a URI of a template
                    place = excluded.place_of(spec.kind, spec.server_id, name)
                if place is None:
                    return self._excluding_rule(spec.kind, spec.server_id, name)
                return in_profile(caller.agent, "exclude_components", place)

    def _withholding_rule(self, key: DefinitionKey) -> RuleSource:
        match self._offers.withheld_for(key):
            case Why.QUARANTINED:
                return NOT_AS_LOCKED
            case Why.GUARDED:
                return self._offers.guarded[key]
            case _:
                return self._in_server(key.server_id, "bind")

    def _hiding_rule(self, kind: Kind, name: str, server_id: str | None) -> RuleSource | None:
        """Return the rule that refuses a name without a component.

        None without a rule: then the server does not offer it.
        """
        if kind is Kind.TOOL:
            if name in DOCUMENT_TOOLS and name != "view_doc_page":
                return CHOSEN_TOOLS
            snapshot = self._offers.snapshots.get(server_id or "")
            if snapshot is not None and name.partition(":")[2] not in snapshot.tools:
                return None  # rules hide only items that the server has
        if server_id is None or server_id not in self._offers.servers:
            return None
        bare_name = name.removeprefix(qualified_name(server_id, ""))
        excluding = self._excluding_rule(kind, server_id, bare_name)
        if excluding is not None or self._offers.scope.allows(kind, server_id, bare_name):
            return excluding
        return _in_preset(self._offers.scope, kind)

    def _excluding_rule(self, kind: Kind, server_id: str | None, name: str) -> RuleSource | None:
        """Return the entry of mcp.json that hides a server's item from all callers."""
        place = self._offers.excluded(server_id).place_of(kind, server_id, name)
        if place is None or server_id is None:
            return None
        return self._in_server(server_id, "exclude", place)

    def _in_server(self, server_id: str, *steps: str | int) -> RuleSource:
        path = json_path(("mcpServers", self._offers.key_of(server_id), *steps))
        return RuleSource(CONFIGURATION_FILE, path)


def in_profile(agent: str | None, key: str, place: int | str | None = None) -> RuleSource:
    """Return a place in an agent's profile, selected by its name (RFC 9535, filters)."""
    name = json.dumps(agent)
    steps = (key,) if place is None else (key, place)
    return RuleSource(AGENTS_FILE, f"$.agents[?@.name=={name}]{json_path(steps)[1:]}")


def _in_preset(scope: PresetScope, kind: Kind) -> RuleSource:
    if scope.preset_id in ("", EMPTY_PRESET.preset_id):
        return NO_PRESET
    return RuleSource(preset_file(scope.preset_id), f"$.{kind.value}s")


def _names_of_all(
    keys: Iterable[DefinitionKey], scope: PresetScope
) -> Mapping[tuple[Kind, str], DefinitionKey]:
    """Return the items by all names that a caller can use, including the preset's."""
    names = {name: key for key in sorted(keys) for name in _names_of(key)}
    items = {(key.kind.item_kind, key.server_id, key.name): key for key in names.values()}
    for kind, given in scope.given_names.items():
        for name, pair in given.items():
            if (key := items.get((kind, *pair))) is not None:
                names[kind, name] = key
    return names


def _names_of(key: DefinitionKey) -> Iterator[tuple[Kind, str]]:
    kind = key.kind.item_kind
    if kind is None:
        return
    yield kind, key.name
    yield kind, qualified_name(key.server_id, key.name)
    if kind is Kind.TOOL:
        yield kind, alias_of(key.server_id, key.name)


def _offers(snapshot: Snapshot, kind: Kind, name: str) -> bool:
    if kind is Kind.PROMPT:
        return name in snapshot.prompts
    known = name in snapshot.resources or name in snapshot.templates
    return known or snapshot.has_template_for(name)


_NOT_ALLOWED: Mapping[Kind, type[NotAllowed]] = {
    Kind.TOOL: ToolNotAllowed,
    Kind.PROMPT: PromptNotAllowed,
    Kind.RESOURCE: ResourceNotAllowed,
}


def _not_allowed(
    kind: Kind, name: str, agent: str | None, reason: str, near: str | None
) -> NotAllowed:
    """Build the error for a hidden name; ``near`` is the visible name that was possibly meant.

    The message is always the same, to conceal whether a hidden item exists.
    """
    if agent is None:
        listed = (
            "list_available_tools shows" if kind is Kind.TOOL else f"the list of {kind.value}s has"
        )
        refusal = (
            "cannot be used: the active preset does not allow it, or its server does not offer it"
        )
        otherwise = f"; use one that {listed}"
    else:
        refusal = f"is not permitted for agent {quote(agent)}"
        otherwise = f"; use one from that agent's list of {kind.value}s"
    return _NOT_ALLOWED[kind](
        f"{kind.value} {quote(name)} {refusal}{did_you_mean(near, otherwise)}",
        reason=reason,
        details={"did_you_mean": near} if near else None,
    )


def _tenant_required(kind: Kind, name: str) -> NotAllowed:
    """Build the error for a caller without a tenant that names a document tool."""
    return _NOT_ALLOWED[kind](
        f"{kind.value} {quote(name)} works on a tenant's documents, and the request names no "
        "tenant; send X-Tenant-Id or a tenant's token, or an operator can set "
        "MCP_PROXY_DEFAULT_TENANT_ID",
        reason="the request names no tenant",
    )


def _not_found(
    kind: Kind, name: str, visible: Iterable[str], reason: str | None = None
) -> ProxyError:
    """Build the error for an unknown name, with the most similar ``visible`` name (F-07, F-15).

    ``reason`` is why a prompt or resource of that name is hidden.
    """
    near = _suggest(name, tuple(visible))
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


def similar_tool(name: str, visible: Iterable[str]) -> str | None:
    """Return the visible tool that a ``server_id:tool`` can be a misspelling of.

    For a usable server, only its own tools are compared, because equal prefixes make any names
    similar.
    """
    server_id, colon, tool_name = name.partition(":")
    known = tuple(visible) if colon else ()
    prefix = f"{server_id}:"
    of_server = [it.removeprefix(prefix) for it in known if it.startswith(prefix)]
    if not of_server:
        return closest_match(name, known, least=NEAR_MISS)
    match = closest_match(tool_name, of_server, least=NEAR_MISS)
    return None if match is None else prefix + match


def _suggest(name: str, known: Sequence[str]) -> str | None:
    """Return the probable meaning of ``name``: a server's item of that name, or a similar name."""
    with_server = f":{name}"
    owned = next((candidate for candidate in known if candidate.endswith(with_server)), None)
    return owned or closest_match(name, known)
