"""Names that pages suggest: tenants, users, servers, tools and agents known to this replica."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice

from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_format import TokenEntry
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.gateway.service_audit import ServiceAudit
from mcp_tools_proxy.policy.token_rights import excess_of
from mcp_tools_proxy.registry.registry import RegistryHolder
from mcp_tools_proxy.telemetry.audit.record_search import RecordFilter

MAX_CHOICES = 200
"""Profiles in a selection list; if there are more, their names are typed."""

MAX_NAMES, MAX_NAME_CHARS = 50, 2_000
"""Suggested names per kind, and their total characters."""

MAX_RECORDS, MAX_RECORD_BYTES = 500, 1024 * 1024
"""Records searched for names, and bytes of the audit file read for them."""

_SEE_CALLERS = frozenset({OperatorRight.AUDIT, OperatorRight.TOKENS, OperatorRight.RUN})
"""Rights whose holders may see or choose the callers of their tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """The agents that a field offers; ``is_complete`` if no other agent is possible."""

    names: Sequence[str] = ()
    is_complete: bool = False
    is_required: bool = False

    def chosen(self, wanted: str) -> str:
        """Return the wanted agent, or the first one if an agent is required."""
        return wanted or (self.names[0] if self.is_required and self.names else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedNames:
    """Suggestions for text fields."""

    tenants: Sequence[str] = ()
    users: Sequence[str] = ()
    servers: Sequence[str] = ()
    tools: Sequence[str] = ()
    agents: Sequence[str] = ()
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Notes by token id."""


class NameDirectory:
    """Finds names in the configuration, the tokens file and recent audit records.

    ``titles`` returns the servers' names in mcp.json by server id.
    """

    def __init__(
        self,
        *,
        registry: RegistryHolder,
        tokens: TokenFileVerifier | None,
        audit: ServiceAudit,
        titles: Callable[[], Mapping[str, str]],
    ) -> None:
        self._registry = registry
        self._tokens = tokens
        self._audit = audit
        self._titles = titles

    async def agents(self, operator: Principal) -> AgentChoice:
        """Return the agents that an operator can select.

        Profiles apply to all tenants. An operator of one tenant is offered only the agents in the
        tenant's tokens and recent calls.
        """
        rules = self._registry.current.access_rules
        allowed: Collection[object] | None = operator.agents
        is_complete = allowed is not None or (operator.tenant_id is None and bool(operator.rights))
        if rules.agents and not is_complete:
            used = _values(await self._payloads(operator), "agent")
            allowed = {*self._agents_of_tokens(operator), *used}
        names = [it for it in sorted(rules.agents or ()) if allowed is None or it in allowed]
        return AgentChoice(
            names=names[:MAX_CHOICES],
            is_complete=is_complete and 0 < len(names) <= MAX_CHOICES,
            is_required=rules.agent_required,
        )

    async def suggested(
        self, operator: Principal, agents: AgentChoice, tenant_id: str = ""
    ) -> SuggestedNames:
        """Return suggestions, with users of ``tenant_id`` or of all tenants of the operator.

        ``agents`` is the result of ``agents``, passed to avoid reading the audit again. Tenants are
        suggested only to operators of all tenants, callers only to holders of rights to see them.
        """
        if not operator.rights:
            return SuggestedNames()
        payloads = await self._payloads(operator)
        principals = [it.principal for it in self._tokens_of(operator)]
        tenants = {it.tenant_id for it in principals} | {it.get("tenant_id") for it in payloads}
        of_all = _bounded(tenants) if operator.tenant_id is None else ()
        if not operator.rights & _SEE_CALLERS:
            return SuggestedNames(tenants=of_all, agents=agents.names)
        payloads = [it for it in payloads if tenant_id in ("", it.get("tenant_id"))]
        principals = [it for it in principals if tenant_id in ("", it.tenant_id)]
        of_tokens = {name for it in principals for name in it.agents or ()}
        named = {*of_tokens, *agents.names, *_values(payloads, "agent")}
        return SuggestedNames(
            tenants=of_all,
            users=_bounded({it.user_id for it in principals} | _values(payloads, "user_id")),
            servers=_bounded(self._titles()),
            tools=_bounded(_values(payloads, "tool") | self._tools(operator)),
            agents=_bounded(named),
            tokens=dict(islice(self.token_notes(operator).items(), MAX_NAMES)),
        )

    def token_notes(self, operator: Principal) -> Mapping[str, str]:
        """Return the notes of the operator's visible tokens, by token id."""
        if not operator.rights & _SEE_CALLERS:
            return {}
        return {it.id: it.note for it in self._tokens_of(operator) if it.note}

    def manages(self, operator: Principal, token_id: str) -> bool:
        """Return whether an operator may see a token of the file: not one with rights beyond
        theirs.
        """
        return OperatorRight.TOKENS in operator.rights and any(
            it.id == token_id and excess_of(it.principal, operator) is None
            for it in self._tokens_of(operator)
        )

    def own_note(self, operator: Principal) -> str:
        """Return the note of the operator's own token, or ""."""
        own_id = operator.token_log_fields.get("token_id")
        entries = () if self._tokens is None else self._tokens.entries
        return next((it.note for it in entries if it.id == own_id), "")

    def has_server(self, server_id: str) -> bool:
        """Return whether the server is configured."""
        return server_id in self._titles()

    def server_titles(self) -> Mapping[str, str]:
        """Return server names that differ from the server id, by server id."""
        return {server_id: name for server_id, name in self._titles().items() if name != server_id}

    def _agents_of_tokens(self, operator: Principal) -> Iterator[str]:
        if operator.rights & _SEE_CALLERS:
            for token in self._tokens_of(operator):
                yield from token.principal.agents or ()

    def _tokens_of(self, operator: Principal) -> list[TokenEntry]:
        """Return the tokens of the operator's tenants."""
        entries = () if self._tokens is None else self._tokens.entries
        wanted = operator.tenant_id
        return [it for it in entries if wanted is None or it.principal.tenant_id == wanted]

    def _tools(self, operator: Principal) -> set[str]:
        """Return the tools of the active preset; empty without the right ``audit``."""
        if OperatorRight.AUDIT not in operator.rights:
            return set()
        return {tool.spec.name for tool in self._registry.current.tools.items}

    async def _payloads(self, operator: Principal) -> list[Mapping[str, object]]:
        """Return the payloads of recent audit records of the operator's tenants."""
        if operator.tenant_id is not None and OperatorRight.AUDIT not in operator.rights:
            return []
        wanted = RecordFilter(tenant_id=operator.tenant_id)
        try:
            found = await self._audit.page(
                wanted, cursor=None, limit=MAX_RECORDS, max_bytes=MAX_RECORD_BYTES
            )
        except OSError:  # the page of calls shows this error
            return []
        payloads = (record.get("payload") for record in found.records)
        return [it for it in payloads if isinstance(it, Mapping)]


def _values(payloads: Iterable[Mapping[str, object]], key: str) -> set[object]:
    return {it.get(key) for it in payloads}


def _bounded(names: Iterable[object]) -> list[str]:
    """Return names in order, up to MAX_NAMES and MAX_NAME_CHARS."""
    found: list[str] = []
    chars = 0
    for name in sorted(it for it in names if isinstance(it, str) and it):
        chars += len(name)
        if len(found) == MAX_NAMES or chars > MAX_NAME_CHARS:
            break
        found.append(name)
    return found
