"""The names that pages offer: what this replica knows of the tenants of an operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_tools_proxy.auth.token_file_verifier import TokenFileVerifier
from mcp_tools_proxy.auth.token_format import TokenEntry
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.registry.registry import RegistryHolder

MAX_CHOICES = 200
"""Profiles of a choice; where there are more, their names are typed."""


_SEE_CALLERS = frozenset({OperatorRight.AUDIT, OperatorRight.TOKENS, OperatorRight.RUN})
"""Rights whose holders see who calls for their tenant, or choose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentChoice:
    """The agents that a field offers; ``is_complete`` if there are no others to name."""

    names: Sequence[str] = ()
    is_complete: bool = False
    is_required: bool = False

    def chosen(self, wanted: str) -> str:
        """Return the agent that a page is for: the wanted one, or the first if one is required."""
        return wanted or (self.names[0] if self.is_required and self.names else "")


class NameDirectory:
    """Finds names by the configuration and the tokens file."""

    def __init__(self, *, registry: RegistryHolder, tokens: TokenFileVerifier | None) -> None:
        self._registry = registry
        self._tokens = tokens

    def agents(self, operator: Principal) -> AgentChoice:
        """Return the agents that an operator can name.

        Profiles are of all tenants. An operator of one tenant is offered those of its tokens.
        """
        rules = self._registry.current.access_rules
        allowed = operator.agents
        is_complete = allowed is not None or (operator.tenant_id is None and bool(operator.rights))
        if not is_complete:
            allowed = frozenset(self._agents_of_tokens(operator))
        names = [it for it in sorted(rules.agents or ()) if allowed is None or it in allowed]
        return AgentChoice(
            names=names[:MAX_CHOICES],
            is_complete=is_complete and 0 < len(names) <= MAX_CHOICES,
            is_required=rules.agent_required,
        )

    def _agents_of_tokens(self, operator: Principal) -> Iterator[str]:
        if operator.rights & _SEE_CALLERS:
            for token in self._tokens_of(operator):
                yield from token.principal.agents or ()

    def _tokens_of(self, operator: Principal) -> list[TokenEntry]:
        """Return the tokens of the tenants that an operator may see."""
        entries = () if self._tokens is None else self._tokens.entries
        wanted = operator.tenant_id
        return [it for it in entries if wanted is None or it.principal.tenant_id == wanted]
