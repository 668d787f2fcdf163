"""A preset, and what of it callers cannot use: what an operator looks at to judge a switch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from mcp_tools_proxy.config.active_config import ActiveConfig
from mcp_tools_proxy.domain.configuration import Missing, Preset, Problem
from mcp_tools_proxy.domain.offers.view import Shadowed, View
from mcp_tools_proxy.gateway.building.server_pool import ServerPool, untried
from mcp_tools_proxy.policy.visibility import Offers, PresetScope, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PresetState:
    """A preset with the servers' offers of now."""

    preset: Preset
    missing: tuple[tuple[Missing, Reason], ...]
    """The items that the preset names and no server offers, and why (P-07).

    Items of a server that was not tried yet are not missing yet.
    """
    pending: Sequence[str]
    """The servers of the preset whose first connection attempt is not over."""
    shadowed: tuple[Shadowed, ...]
    """The items that are hidden because an earlier server offers the same (P-13)."""
    problems: tuple[Problem, ...]
    """The problems of the files, with this preset as the active one."""

    @classmethod
    def of(cls, config: ActiveConfig, view: View, pool: ServerPool, offers: Offers) -> Self:
        """Return the state of the preset of ``config``, of which ``view`` is the view.

        ``offers`` are those of its registry.
        """
        pending, not_tried, offers = pool.pending, untried(pool), offers.now()
        servers = PresetScope.of(config.preset).servers
        return cls(
            preset=config.preset,
            missing=tuple(
                (it, offers.missing_reason(it))
                for it in view.missing
                if it.server_id not in not_tried
            ),
            pending=[server_id for server_id in pending if server_id in servers],
            shadowed=view.shadowed,
            problems=config.problems,
        )
