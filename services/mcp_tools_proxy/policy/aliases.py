"""How a downstream tool is spelt: at our edges, and for model APIs that refuse a colon."""

import hashlib
import re

ALIAS_CHARS = 64
SERVER_CHARS = 24
TOOL_CHARS = 30
"""What is shown of either name where a hash of 8 has to follow; the three fit in an alias."""

_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")
_REFUSED = re.compile(r"[^a-zA-Z0-9-]+")


def qualified_name(server_id: str, tool: str) -> str:
    """Spell the pair as ``server_id:tool``; no two pairs share one, server ids hold no colon."""
    return f"{server_id}:{tool}"


def alias_of(server_id: str, tool: str) -> str:
    """Give the pair's alias, which matches ``^[a-zA-Z0-9_-]{1,64}$`` (contract §6).

    ``server__tool`` when only the colon had to change, else a readable cut and a hash of the pair.
    The first kind always holds ``__`` and splits at the first one into its pair; the second kind
    never holds it. So two pairs share an alias only if their hashes do.
    """
    if has_plain_alias(server_id, tool):
        return f"{server_id}__{tool}"
    shown = (_readable(server_id, SERVER_CHARS), _readable(tool, TOOL_CHARS))
    return "_".join(part for part in (*shown, _hash(server_id, tool)) if part)


def has_plain_alias(server_id: str, tool: str) -> bool:
    """Tell whether only the colon has to change: the pair fits, and ``__`` splits it uniquely."""
    plain = f"{server_id}__{tool}"
    splits_uniquely = "__" not in server_id and not server_id.endswith("_")
    return splits_uniquely and len(plain) <= ALIAS_CHARS and bool(_PLAIN.fullmatch(plain))


def _readable(name: str, max_chars: int) -> str:
    return _REFUSED.sub("_", name)[:max_chars].strip("_")


def _hash(server_id: str, tool: str) -> str:
    """Hash the pair; the length in front keeps ("a", "bc") and ("ab", "c") apart."""
    pair = f"{len(server_id)}:{server_id}{tool}"
    return hashlib.sha256(pair.encode(errors="surrogatepass")).hexdigest()[:8]
