"""The instructions of servers, joined for callers that may use something of these servers.

They are read when a session begins and in lists of tools; no call does anything here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_tools_proxy.domain.configuration import (
    MAX_INSTRUCTIONS,
    MAX_SERVER_INSTRUCTIONS,
    OwnInstructions,
)
from mcp_tools_proxy.policy.visibility import Permissions
from mcp_tools_proxy.registry.component_table import HasSpec
from mcp_tools_proxy.wire.encoding import encodable

_TAG = re.compile(r"<(?=/?server\b)", re.IGNORECASE)
"""The beginning of a tag of ours in a server's text, which could speak as another server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTexts:
    """What servers say of themselves as a whole, and what presets say instead."""

    by_server: Mapping[str, str] = field(default_factory=dict)
    """The servers' own texts, without those that may not be shown."""
    of_preset: OwnInstructions | None = None
    by_agent: Mapping[str, OwnInstructions] = field(default_factory=dict)
    """What the presets of profiles say, by agent; it replaces what the active preset says."""

    def of_agent(self, agent: str | None) -> OwnInstructions | None:
        """Return what the agent's preset says, else the active one."""
        return self.of_preset if agent is None else self.by_agent.get(agent, self.of_preset)


NO_TEXTS = InstructionTexts()

ItemsFor = Callable[[Permissions], Iterable[HasSpec]]
"""Returns the components of one kind that a caller may use."""


class Instructions:
    """The instructions of one registry; callers that see the same servers share one text."""

    def __init__(self, texts: InstructionTexts, kinds: Sequence[ItemsFor]) -> None:
        self._texts = texts
        self._kinds = kinds
        self._is_empty = texts == NO_TEXTS
        self._by_view: dict[tuple[str | None, bool], str | None] = {}
        self._joined: dict[tuple[object, ...], str | None] = {}

    def text_for(self, permissions: Permissions) -> str | None:
        """Return the text for a caller; None without any instructions."""
        if self._is_empty:
            return None
        view = permissions.agent, permissions.has_tenant
        if view not in self._by_view:
            own = self._texts.of_agent(permissions.agent)
            servers = () if isinstance(own, str) else tuple(self._servers_of(permissions))
            key = (id(own), servers)  # the texts keep the object alive
            if key not in self._joined:
                self._joined[key] = self._join(own, servers)
            self._by_view[view] = self._joined[key]
        return self._by_view[view]

    def _join(self, own: OwnInstructions | None, servers: Iterable[str]) -> str | None:
        if isinstance(own, str):
            return own or None
        texts = {**self._texts.by_server, **(own or {})}
        return joined_instructions((it, texts[it]) for it in servers if it in texts)

    def _servers_of(self, permissions: Permissions) -> Iterable[str]:
        """Return the servers of which the caller sees at least one item, in the view's order."""
        visible = (item for items_for in self._kinds for item in items_for(permissions))
        ids = (item.spec.server_id for item in visible)
        return dict.fromkeys(server_id for server_id in ids if server_id is not None)


def joined_instructions(texts: Iterable[tuple[str, str]]) -> str | None:
    """Return the texts, each in a tag with its server's id; None if all are blank."""
    present = [(server_id, text) for server_id, it in texts if (text := it.strip())]
    return "\n\n".join(_parts(present)) or None


def _parts(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    left, omitted = MAX_INSTRUCTIONS, 0
    for server_id, text in texts:
        if not left:
            omitted += 1
            continue
        shown = text[: min(MAX_SERVER_INSTRUCTIONS, left)]
        left -= len(shown)
        if len(shown) < len(text):
            note = f"[cut: the first {len(shown)} of {len(text)} characters]"
        else:
            note = ""
        lines = (f'<server id="{server_id}">', _tame(shown), note, "</server>")
        yield "\n".join(filter(None, lines))
    if omitted:
        yield f"[left out: the instructions of {omitted} more servers]"


def _tame(text: str) -> str:
    """Return a text that can be encoded, and has no tag of ours."""
    return _TAG.sub("&lt;", str(encodable(text)))
