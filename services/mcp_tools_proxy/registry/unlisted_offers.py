"""Items that servers offer and a registry does not have: outside the preset, or unsupported."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.audit.rule_source import RuleSource
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey
from mcp_tools_proxy.domain.offers.snapshot import Snapshot
from mcp_tools_proxy.policy.aliases import alias_of, qualified_name
from mcp_tools_proxy.policy.definitions.withheld_items import NOTHING_WITHHELD, WithheldItems
from mcp_tools_proxy.policy.item_reasons import NO_REASONS, OUTSIDE_THE_PRESET, ItemReasons
from mcp_tools_proxy.registry.access_rules import Permissions

NEEDS_TASK = (
    'it can only be run as a task (its execution.taskSupport is "required"), which this gateway '
    "does not support, so it is not listed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedOffers:
    """What the servers offer in all, to explain why an item is not in the registry.

    ``reasons`` decides why. ``need_task`` has server id and name of each
    tool that the preset allows and that can only be run as a task, which this gateway does not
    support. ``quarantine`` has the items that are not as locked, ``unbound`` those with an argument
    that their server's entry cannot bind, ``guarded`` those that a guard hides.
    """

    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    reasons: ItemReasons = NO_REASONS
    need_task: Sequence[tuple[str, str]] = ()
    quarantine: WithheldItems = NOTHING_WITHHELD
    unbound: WithheldItems = NOTHING_WITHHELD
    guarded: WithheldItems = NOTHING_WITHHELD
    invalid_servers: frozenset[str] = frozenset()
    """The servers whose entry is invalid, with no good one before."""
    guard_rules: Mapping[DefinitionKey, RuleSource] = field(default_factory=dict)
    """The rule by which each of the ``guarded`` items is hidden."""

    def reason(self, kind: Kind, name: str) -> str | None:
        """Return why a prompt or resource is hidden; None if no server offers ``name``."""
        server_id = self.server_of(kind, name)
        if server_id is None:
            return None
        return self._text(kind, server_id, name.removeprefix(qualified_name(server_id, "")))

    def tool_reason(self, qualified: str) -> str:
        """Return why a ``server_id:tool`` that nothing has is hidden, for logs and operators."""
        server_id, _, name = qualified.partition(":")
        return self._text(Kind.TOOL, server_id, name)

    def _text(self, kind: Kind, server_id: str, name: str) -> str:
        reason = self.reasons.of(kind, server_id, name)
        return OUTSIDE_THE_PRESET if reason is None else reason.text

    def is_missing(self, qualified: str) -> bool:
        """Return whether a ``server_id:tool`` is none of the tools that its server offers."""
        server_id, _, name = qualified.partition(":")
        snapshot = self.snapshots.get(server_id)
        return snapshot is not None and name not in snapshot.tools

    def server_of(self, kind: Kind, name: str) -> str | None:
        """Return the first server that offers a prompt or resource ``name``, None without one."""
        if kind is Kind.TOOL:
            return None
        return next(
            (
                server_id
                for server_id, snapshot in self.snapshots.items()
                if any(_offers(snapshot, kind, it) for it in _spellings(server_id, name))
            ),
            None,
        )

    def warnings(self, permissions: Permissions) -> Mapping[str, frozenset[str]]:
        """Return all names of each task-only tool that the caller may see, by qualified name."""
        return {
            qualified_name(server_id, name): frozenset(
                {qualified_name(server_id, name), alias_of(server_id, name), name}
            )
            for server_id, name in self.need_task
            if permissions.visibility.denial(Kind.TOOL, server_id, name) is None
        }


NOTHING_UNLISTED = UnlistedOffers()


def _spellings(server_id: str, name: str) -> Iterator[str]:
    yield name
    if name.startswith(prefix := qualified_name(server_id, "")):
        yield name[len(prefix) :]


def _offers(snapshot: Snapshot, kind: Kind, name: str) -> bool:
    if kind is Kind.PROMPT:
        return name in snapshot.prompts
    known = name in snapshot.resources or name in snapshot.templates
    return known or snapshot.has_template_for(name)
