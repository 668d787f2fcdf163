"""Matches components against a list of excluded names (A-01, A-05, A-18)."""

import re
from collections.abc import Iterable, Iterator

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.policy.aliases import qualified_name
from mcp_tools_proxy.wire.identifiers import with_server_id
from mcp_tools_proxy.wire.text import normalize
from mcp_tools_proxy.wire.uris import percent_decode_repeatedly

_SLASHES = re.compile(r"[/\\]+")
_URI_ENDS = "#?;"
"""Characters that start ignorable parts of a URI: fragment, query, parameters."""


class Exclusions:
    """The names that an operator excluded, compiled for matching; equal for equal names.

    Entries are looked up and never parsed, so that ids and names cannot be confused (A-19): an
    entry matches the components with it among their ``name_variants``.
    """

    __slots__ = ("_entries", "_places", "_uri_places", "_uris")

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._places: dict[str, int] = {}
        self._uri_places: dict[str, int] = {}
        for place, entry in enumerate(entries):
            self._places.setdefault(entry, place)
            self._uri_places.setdefault(_normalize_uri(entry), place)
            # a server's name in mcp.json can have a derived id; the item's name can contain a colon
            # too
            if (by_id := with_server_id(entry)) != entry:
                self._places.setdefault(by_id, place)
                self._uri_places.setdefault(_normalize_uri(by_id), place)
        self._entries = frozenset(self._places)
        self._uris = frozenset(self._uri_places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exclusions) and self._entries == other._entries

    def __hash__(self) -> int:
        return hash(self._entries)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __repr__(self) -> str:
        return f"<Exclusions {sorted(self._entries)}>"

    def matches(self, kind: Kind, server_id: str | None, name: str) -> bool:
        """Return whether a component is excluded; ``name`` is its bare name."""
        if not self._entries:
            return False
        return not self._entries.isdisjoint(name_variants(kind, server_id, name))

    def place_of(self, kind: Kind, server_id: str | None, name: str) -> int | None:
        """Return the index of the first entry that excludes a component; None without one.

        URIs are compared as in ``matches_uri``.
        """
        if not self._entries:
            return None
        names = name_variants(kind, server_id, name)
        places = [self._places[it] for it in names if it in self._places]
        if kind is Kind.RESOURCE:
            spellings = self._uri_spellings(server_id, name)
            places += [self._uri_places[it] for it in spellings if it in self._uri_places]
        return min(places, default=None)

    def matches_uri(self, server_id: str | None, uri: str) -> bool:
        """Return whether a URI that matches a template is excluded (A-20).

        A URI that differs from an excluded one only in encoding, case, repeated slashes, or an
        added query, fragment or parameters is excluded too, because the server can treat both as
        the same resource.
        """
        if not self._entries:
            return False
        return any(it in self._uris for it in self._uri_spellings(server_id, uri))

    def _uri_spellings(self, server_id: str | None, uri: str) -> Iterator[str]:
        """Yield all normalized names of a URI that an entry can exclude."""
        plain = _normalize_uri(uri)
        cuts = (plain.partition(end)[0].rstrip("/") for end in _URI_ENDS)
        server = None if server_id is None else server_id.casefold()
        for name in (plain, *cuts):
            yield from name_variants(Kind.RESOURCE, server, name)


NO_EXCLUSIONS = Exclusions()


def name_variants(kind: Kind, server_id: str | None, name: str) -> Iterator[str]:
    """Yield all names of a component that an entry can exclude (A-18).

    These are ``name`` and, unless local, ``server_id:name``, each with an optional prefix
    ``tool:``, ``prompt:`` or ``resource:``.
    """
    yield name
    yield f"{kind.value}:{name}"
    if server_id is not None:
        qualified = qualified_name(server_id, name)
        yield qualified
        yield f"{kind.value}:{qualified}"


def _normalize_uri(uri: str) -> str:
    """Return the same form for equivalent URIs: decoded, NFC, lower case, single slashes."""
    return (
        _SLASHES.sub("/", normalize("NFC", percent_decode_repeatedly(uri))).casefold().rstrip("/")
    )
