"""Names of downstream tools: qualified names, aliases for model APIs, and the rules for both.

Model APIs refuse the colon of ``server_id:tool``, so each tool has an alias.
"""

import hashlib
import re
from collections.abc import Container

from mcp_tools_proxy.domain.caller import Kind

ALIAS_CHARS = 64
SERVER_CHARS = 24
TOOL_CHARS = 30
"""Characters kept of server and tool in an alias that ends in a hash of 8; together at most 64."""
HASH_CHARS = 8
_FIXED_CHARS = HASH_CHARS + 2

MODEL_NAME_PATTERN = "[a-zA-Z0-9_-]{1,64}"
"""Names of tools that OpenAI and Anthropic accept."""

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_REFUSED = re.compile(r"[^a-zA-Z0-9-]+")


def qualified_name(server_id: str, tool: str) -> str:
    """Return ``server_id:tool``; unique, because server ids contain no colon."""
    return f"{server_id}:{tool}"


def alias_of(server_id: str, tool: str, max_chars: int = ALIAS_CHARS) -> str:
    """Return the pair's alias, which matches ``^[a-zA-Z0-9_-]{1,64}$`` (contract §6).

    It is ``server__tool`` if only the colon has to change, otherwise a shortened form with a hash
    of the pair. The first form splits at its first ``__`` into the pair; the second never contains
    ``__``. So two pairs share an alias only if their hashes collide. ``max_chars`` is for clients
    that add a prefix.
    """
    if has_plain_alias(server_id, tool, max_chars):
        return f"{server_id}__{tool}"
    server_chars = SERVER_CHARS * (max_chars - _FIXED_CHARS) // (SERVER_CHARS + TOOL_CHARS)
    tool_chars = max_chars - _FIXED_CHARS - server_chars
    shown = (_readable(server_id, server_chars), _readable(tool, tool_chars))
    return "_".join(part for part in (*shown, pair_hash(server_id, tool)) if part)


def hash_in(name: str) -> str | None:
    """Return the hash at the end of a possible shortened alias; None for other names."""
    return name[-HASH_CHARS:] if name[-HASH_CHARS - 1 : -HASH_CHARS] == "_" else None


def has_plain_alias(server_id: str, tool: str, max_chars: int = ALIAS_CHARS) -> bool:
    """Return whether ``server__tool`` can be the alias: it fits, and splits uniquely at ``__``."""
    plain = f"{server_id}__{tool}"
    splits_uniquely = "__" not in server_id and not server_id.endswith("_")
    return splits_uniquely and len(plain) <= max_chars and bool(_PLAIN.fullmatch(plain))


def _readable(name: str, max_chars: int) -> str:
    return _REFUSED.sub("_", name)[:max_chars].strip("_")


def pair_hash(server_id: str, tool: str) -> str:
    """Hash the pair; the length prefix distinguishes ("a", "bc") from ("ab", "c")."""
    pair = f"{len(server_id)}:{server_id}{tool}"
    return hashlib.sha256(pair.encode(errors="surrogatepass")).hexdigest()[:HASH_CHARS]


def impersonates_server(
    kind: Kind, server_id: str | None, name: str, servers: Container[str]
) -> bool:
    """Return whether a bare name could be mistaken for another server's qualified name (A-19).

    Otherwise a rogue server could receive another's calls while that one is down. ``servers`` are
    the ids of all servers. A tool's name with a colon always counts (contract §6). Prompt names and
    URIs count only with another server's id as prefix; a URI only if another URI follows, because a
    scheme can equal a server's id.
    """
    if kind is Kind.TOOL:
        first, separator, _ = name.partition("__")
        named = {first, first.removeprefix("_")}  # "_" precedes it in the name for Gemini
        return ":" in name or (bool(separator) and any(it in servers for it in named))
    first, separator, rest = name.partition(":")
    if not separator or first == server_id or first not in servers:
        return False
    return kind is Kind.PROMPT or (":" in rest and not rest.startswith("/"))
