"""The parts of storage keys: no two ids make the same part, whatever characters they hold. Pure."""

from hashlib import sha256

from mcp_tools_proxy.wire.identifiers import IDENTIFIER_CHARS


def tenant_tag(tenant_id: str) -> str:
    """Return the part for a tenant: its length and id in braces, a hash tag.

    Of a cluster of Redis one node has all keys of a tenant.
    """
    return f"{{{len(tenant_id)}:{tenant_id}}}"


def document_suffix(doc_id: str) -> str:
    """Return what follows the tenant in the keys of a document's budgets.

    A downstream tool's ``doc_id`` may have any length: 150 calls with 1 MB each took 1.2 GB of keys
    in memory. So one that is longer than an identifier is hashed.
    """
    return f":{doc_id}" if len(doc_id) <= IDENTIFIER_CHARS else _hashed(doc_id)


def value_part(value: str | None) -> str:
    """Return the part for a value that others may follow: its length is in front, None is ``-``."""
    if value is None:
        return "-"
    return f"{len(value)}:{value}" if len(value) <= IDENTIFIER_CHARS else _hashed(value)


def _hashed(value: str) -> str:
    return "#" + sha256(value.encode(errors="surrogatepass")).hexdigest()
