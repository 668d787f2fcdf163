"""Finds exclusions that match no component (A-15).

Such an entry is most often a typing mistake, and what it was meant to hide is visible. It is
reported as a warning, with the most similar known name.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from mcp_tools_proxy.config.json_file import Location, first_problems, json_path
from mcp_tools_proxy.config.loader import AGENTS_FILE, CONFIGURATION_FILE
from mcp_tools_proxy.config.unknown_keys import also_at
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.configuration import Agents, Configuration, Problem
from mcp_tools_proxy.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from mcp_tools_proxy.policy.exclusions import name_variants
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean, join_first
from mcp_tools_proxy.wire.text import quote

MAX_HINTS = 10
"""For how many entries a similar name is searched: comparing is slow (difflib)."""

COMPARED_NAMES = 2_000
"""Among how many known names it is searched."""

MAX_LENGTH_DIFFERENCE = 2
"""How many characters longer or shorter than the entry a compared name may be."""

_KINDS = frozenset(kind.value for kind in Kind)


def find_unmatched_exclusions(
    *,
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    local_tools: Iterable[str],
    certain_only: bool = False,
) -> tuple[Problem, ...]:
    """Return a warning for each entry that matches nothing, at most 100 for each file.

    - An agent's entry may name anything that a server of ``snapshots`` offers, visible to the agent
      or not, and any of ``local_tools``; a server's entry only what this server offers.
    - A URI with the beginning of a template may be one of the template's URIs (A-20).
    - An entry that may be about an undiscovered server is reported as such, or not at all with
      ``certain_only``.
    - An entry about a disabled server is not reported, since its offer is unknown.
    """
    state = _DiscoveryState(configuration, snapshots)
    all_names = _KnownNames(snapshots, tuple(local_tools))
    of_agents = all_names.unmatched(
        (("agents", index, "exclude_components", place), entry)
        for index, profile in enumerate(agents.profiles.values())
        for place, entry in enumerate(profile.exclude_components)
    )
    of_servers = chain.from_iterable(
        _KnownNames({server_id: snapshots.get(server_id, EMPTY_SNAPSHOT)}).unmatched(
            (
                (("mcpServers", server_id, "exclude", place), entry)
                for place, entry in enumerate(entries)
            ),
            owner=server_id,
        )
        for server_id, entries in configuration.exclude.items()
    )
    hints = _Suggestions()
    return (
        *_warnings(AGENTS_FILE, of_agents, state, hints, certain_only=certain_only),
        *_warnings(CONFIGURATION_FILE, of_servers, state, hints, certain_only=certain_only),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unmatched:
    """An entry that matches none of ``names``, and its place in the file.

    ``owner`` is the server whose entry in mcp.json has the list; None for an agent's list.
    """

    place: Location
    entry: str
    names: "_KnownNames"
    owner: str | None


class _KnownNames:
    """The names of everything that the entries of one list can match."""

    def __init__(
        self, snapshots: Mapping[str, Snapshot], local_tools: tuple[str, ...] = ()
    ) -> None:
        self._snapshots = snapshots
        self._local_tools = local_tools

    def unmatched(
        self, entries: Iterable[tuple[Location, str]], owner: str | None = None
    ) -> list[_Unmatched]:
        """Return the entries that match nothing, in order."""
        listed = list(entries)
        unknown = {entry for _, entry in listed}
        if unknown:
            unknown.difference_update(self.name_variants())
        unknown = {entry for entry in unknown if not self._has_template_prefix(entry)}
        return [
            _Unmatched(place=place, entry=entry, names=self, owner=owner)
            for place, entry in listed
            if entry in unknown
        ]

    def name_variants(self) -> Iterator[str]:
        """Yield every spelling of every name, invalid items included."""
        for name in self._local_tools:
            yield from name_variants(Kind.TOOL, None, name)
        for server_id, it in self._snapshots.items():
            for kind, name in it.components:
                yield from name_variants(kind, server_id, name)
        for server_id, it in self._snapshots.items():
            for item in it.dropped:
                yield from name_variants(item.kind, server_id, item.name)

    def _has_template_prefix(self, entry: str) -> bool:
        folded = entry.casefold()
        return any(folded[:length] in known for length, known in self._template_prefixes.items())

    @cached_property
    def _template_prefixes(self) -> Mapping[int, set[str]]:
        """Every spelling of the templates' text before the first variable, by length.

        Case is folded, since an excluded URI matches URIs that differ in case.
        """
        found: dict[int, set[str]] = {}
        for server_id, it in self._snapshots.items():
            for template in it.templates:
                for spelling in name_variants(Kind.RESOURCE, server_id, template.partition("{")[0]):
                    folded = spelling.casefold()
                    found.setdefault(len(folded), set()).add(folded)
        return found


class _DiscoveryState:
    """Which servers are disabled, and of which the offer is not fully known."""

    def __init__(self, configuration: Configuration, snapshots: Mapping[str, Snapshot]) -> None:
        self._servers = configuration.server_ids
        self._disabled = {
            server_id for server_id, it in configuration.servers.items() if not it.enabled
        }
        self._undiscovered = tuple(
            server_id
            for server_id in (*configuration.servers, *configuration.invalid)
            if server_id not in self._disabled
            and (server_id not in snapshots or snapshots[server_id].failed_lists)
        )

    def is_about_disabled(self, unmatched: _Unmatched) -> bool:
        """Return whether an entry is about a disabled server, which is never contacted."""
        server_id = unmatched.owner or self._server_of(unmatched.entry)
        return server_id in self._disabled

    def undiscovered(self, unmatched: _Unmatched) -> tuple[str, ...]:
        """Return the undiscovered servers that may offer what the entry names.

        A URI may be any server's, even if its scheme equals the id of one server.
        """
        named = None if "://" in unmatched.entry else self._server_of(unmatched.entry)
        server_id = unmatched.owner or named
        if server_id is None:
            return self._undiscovered
        return (server_id,) if server_id in self._undiscovered else ()

    def _server_of(self, entry: str) -> str | None:
        """Return the server whose id an entry begins with, after a kind; None without one."""
        first, _, rest = entry.partition(":")
        if first in _KINDS and first not in self._servers:
            first = rest.partition(":")[0]
        return first if first in self._servers else None


class _Suggestions:
    """Finds similar names for the first MAX_HINTS entries, so that many mistakes cost little."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], str | None] = {}

    def find(self, unmatched: _Unmatched) -> str | None:
        """Return the known name that is most similar to the entry."""
        key = (id(unmatched.names), unmatched.entry)
        if key not in self._found and len(self._found) < MAX_HINTS:
            compared = islice(unmatched.names.name_variants(), COMPARED_NAMES)
            likely = (name for name in compared if _may_be_meant(unmatched.entry, name))
            self._found[key] = closest_match(unmatched.entry, likely)
        return self._found.get(key)


def _may_be_meant(entry: str, name: str) -> bool:
    """Return whether a name is worth the slow comparison by difflib.

    Names whose length differs by more than MAX_LENGTH_DIFFERENCE are skipped, and those that share
    neither the first nor the last character: a mistake is seldom at both ends of a name.
    """
    if abs(len(name) - len(entry)) > MAX_LENGTH_DIFFERENCE:
        return False
    return name[:1] == entry[:1] or name[-1:] == entry[-1:]


def _warnings(
    file: str,
    found: Iterable[_Unmatched],
    state: _DiscoveryState,
    hints: _Suggestions,
    *,
    certain_only: bool,
) -> tuple[Problem, ...]:
    """Build one warning for all equal entries, with the places of all of them."""
    same: dict[tuple[int, str, tuple[str, ...]], list[_Unmatched]] = {}
    for it in found:
        servers = state.undiscovered(it)
        if not (state.is_about_disabled(it) or (servers and certain_only)):
            same.setdefault((id(it.names), it.entry, servers), []).append(it)

    def warning(servers: tuple[str, ...], entries: list[_Unmatched]) -> Problem:
        first, *others = entries
        what = _may_be_of(servers) if servers else _there_is_no_such(hints.find(first))
        also = also_at([it.place for it in others])
        message = f"{quote(first.entry)} names nothing that {what}{also}"
        return Problem(file=file, path=json_path(first.place), message=message)

    groups = [(servers, entries) for (_, _, servers), entries in same.items()]
    return first_problems(file, groups, lambda it: warning(*it))


def _may_be_of(undiscovered: tuple[str, ...]) -> str:
    servers = join_first(undiscovered, quote)
    return f"was found; it may be of a server that did not tell all that it offers: {servers}"


def _there_is_no_such(meant: str | None) -> str:
    return f"there is{did_you_mean(meant, ', so it has no effect')}"
