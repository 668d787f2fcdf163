"""Which entries of the lists of excluded names name nothing that there is (A-15).

Such an entry does no harm, and is most often a mistake: what it was to hide is seen. It is told as
a warning, with the known spelling that is most like it.
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
COMPARED_SPELLINGS = 2_000
"""For how many entries a known spelling is looked for that is like it, and among how many."""

LENGTH_DIFFERS = 2
"""By how many characters a mistaken spelling is longer or shorter than what was meant."""

_KINDS = frozenset(kind.value for kind in Kind)


def find_unmatched_exclusions(
    *,
    agents: Agents,
    configuration: Configuration,
    snapshots: Mapping[str, Snapshot],
    local_tools: Iterable[str],
    certain_only: bool = False,
) -> tuple[Problem, ...]:
    """Tell of the entries that name nothing, at most 100 for each file.

    An agent's entry may name what any server of ``snapshots`` offers, seen by the agent or not, and
    any of ``local_tools``; a server's only what this server offers. A URI that begins as a template
    does may be one of the template's (A-20). An entry that may be about a server that was not
    discovered is told as such, or with ``certain_only`` not at all; of a disabled server nothing is
    known, so nothing is told.
    """
    known = _Known(configuration, snapshots)
    everything = _KnownOffer(snapshots, tuple(local_tools))
    of_agents = everything.vain(
        (("agents", index, "exclude_components", place), entry)
        for index, profile in enumerate(agents.profiles.values())
        for place, entry in enumerate(profile.exclude_components)
    )
    of_servers = chain.from_iterable(
        _KnownOffer({server_id: snapshots.get(server_id, EMPTY_SNAPSHOT)}).vain(
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
        *_told(AGENTS_FILE, of_agents, known, hints, certain_only=certain_only),
        *_told(CONFIGURATION_FILE, of_servers, known, hints, certain_only=certain_only),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unmatched:
    """An entry that names nothing of ``offer``, and where it stands.

    ``owner`` is the server whose list it is in; None for an agent's.
    """

    place: Location
    entry: str
    offer: "_KnownOffer"
    owner: str | None


class _KnownOffer:
    """Everything that the entries of one list can name."""

    def __init__(
        self, snapshots: Mapping[str, Snapshot], local_tools: tuple[str, ...] = ()
    ) -> None:
        self._snapshots = snapshots
        self._local_tools = local_tools

    def vain(
        self, entries: Iterable[tuple[Location, str]], owner: str | None = None
    ) -> list[_Unmatched]:
        """Give those that name nothing, in order."""
        listed = list(entries)
        unknown = {entry for _, entry in listed}
        if unknown:
            unknown.difference_update(self.name_variants())
        unknown = {entry for entry in unknown if not self._begins_as_a_template(entry)}
        return [
            _Unmatched(place=place, entry=entry, offer=self, owner=owner)
            for place, entry in listed
            if entry in unknown
        ]

    def name_variants(self) -> Iterator[str]:
        """Give every spelling of everything, what cannot be used because it is broken, too."""
        for name in self._local_tools:
            yield from name_variants(Kind.TOOL, None, name)
        for server_id, it in self._snapshots.items():
            for kind, name in it.components:
                yield from name_variants(kind, server_id, name)
        for server_id, it in self._snapshots.items():
            for item in it.dropped:
                yield from name_variants(item.kind, server_id, item.name)

    def _begins_as_a_template(self, entry: str) -> bool:
        folded = entry.casefold()
        return any(folded[:length] in known for length, known in self._beginnings.items())

    @cached_property
    def _beginnings(self) -> Mapping[int, set[str]]:
        """Every spelling of what the templates have before their first variable, by length.

        Case is folded, as an excluded URI hits others that differ in case.
        """
        found: dict[int, set[str]] = {}
        for server_id, it in self._snapshots.items():
            for template in it.templates:
                for spelling in name_variants(Kind.RESOURCE, server_id, template.partition("{")[0]):
                    folded = spelling.casefold()
                    found.setdefault(len(folded), set()).add(folded)
        return found


class _Known:
    """Of which servers it is known what they offer."""

    def __init__(self, configuration: Configuration, snapshots: Mapping[str, Snapshot]) -> None:
        self._servers = configuration.server_ids
        self._disabled = {
            server_id for server_id, it in configuration.servers.items() if not it.enabled
        }
        self._unsure = tuple(
            server_id
            for server_id in (*configuration.servers, *configuration.invalid)
            if server_id not in self._disabled
            and (server_id not in snapshots or snapshots[server_id].failed_lists)
        )

    def about_a_disabled(self, vain: _Unmatched) -> bool:
        """Tell whether an entry is about a server that is not asked."""
        server_id = vain.owner or self._named(vain.entry)
        return server_id in self._disabled

    def unsure(self, vain: _Unmatched) -> tuple[str, ...]:
        """Name the servers that may yet offer what the entry names.

        A URI may be any server's, also where its scheme is the id of one.
        """
        named = None if "://" in vain.entry else self._named(vain.entry)
        server_id = vain.owner or named
        if server_id is None:
            return self._unsure
        return (server_id,) if server_id in self._unsure else ()

    def _named(self, entry: str) -> str | None:
        """Give the server that an entry seems to name."""
        first, _, rest = entry.partition(":")
        if first in _KINDS and first not in self._servers:
            first = rest.partition(":")[0]
        return first if first in self._servers else None


class _Suggestions:
    """Finds what was meant, for the first entries only, so that many wrong ones cost little."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], str | None] = {}

    def find(self, vain: _Unmatched) -> str | None:
        """Give the spelling that is most like the entry."""
        key = (id(vain.offer), vain.entry)
        if key not in self._found and len(self._found) < MAX_HINTS:
            compared = islice(vain.offer.name_variants(), COMPARED_SPELLINGS)
            likely = (spelling for spelling in compared if _may_be_meant(vain.entry, spelling))
            self._found[key] = closest_match(vain.entry, likely)
        return self._found.get(key)


def _may_be_meant(entry: str, spelling: str) -> bool:
    """Tell quickly what need not be compared: a mistake is seldom at both ends of a name."""
    if abs(len(spelling) - len(entry)) > LENGTH_DIFFERS:
        return False
    return spelling[:1] == entry[:1] or spelling[-1:] == entry[-1:]


def _told(
    file: str,
    found: Iterable[_Unmatched],
    known: _Known,
    hints: _Suggestions,
    *,
    certain_only: bool,
) -> tuple[Problem, ...]:
    same: dict[tuple[int, str, tuple[str, ...]], list[_Unmatched]] = {}
    for vain in found:
        servers = known.unsure(vain)
        if not (known.about_a_disabled(vain) or (servers and certain_only)):
            same.setdefault((id(vain.offer), vain.entry, servers), []).append(vain)

    def tell(servers: tuple[str, ...], entries: list[_Unmatched]) -> Problem:
        first, *others = entries
        what = _may_be_of(servers) if servers else _there_is_no_such(hints.find(first))
        also = also_at([it.place for it in others])
        message = f"{quote(first.entry)} names nothing that {what}{also}"
        return Problem(file=file, path=json_path(first.place), message=message)

    to_tell = [(servers, entries) for (_, _, servers), entries in same.items()]
    return first_problems(file, to_tell, lambda it: tell(*it))


def _may_be_of(unsure: tuple[str, ...]) -> str:
    servers = join_first(unsure, quote)
    return f"was found; it may be of a server that did not tell all that it offers: {servers}"


def _there_is_no_such(meant: str | None) -> str:
    return f"there is{did_you_mean(meant, ', so it has no effect')}"
