"""The instructions of servers, joined for callers that can use items of these servers.

They are sent at the start of a session and in lists of tools.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from mcp_tools_proxy.domain.configuration import (
    MAX_INSTRUCTIONS,
    MAX_SERVER_INSTRUCTIONS,
    OwnInstructions,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.policy.visibility import Permissions
from mcp_tools_proxy.registry.component_table import HasSpec
from mcp_tools_proxy.wire.encoding import encodable

_TAG = re.compile(r"<(?=/?server\b)", re.IGNORECASE)
"""The start of a forged ``server`` tag in a server's text, which could speak for another server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionTexts:
    """Instructions of servers, and their replacements in presets."""

    by_server: Mapping[str, str] = field(default_factory=dict)
    """The servers' own texts, without withheld ones."""
    of_preset: OwnInstructions | None = None
    by_agent: Mapping[str, OwnInstructions] = field(default_factory=dict)
    """Texts of profiles' presets, by agent; they replace those of the active preset."""

    def of_agent(self, agent: str | None) -> OwnInstructions | None:
        """Return the text of the agent's preset, or of the active one."""
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
        """Return the servers with an item visible to the caller, in the view's order."""
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
    """Return an encodable text without ``server`` tags."""
    return _TAG.sub("&lt;", str(encodable(text)))
