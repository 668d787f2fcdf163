"""IP addresses as requests and their headers have them."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

IpAddress = IPv4Address | IPv6Address


def parse_address(text: str) -> IpAddress | None:
    """Parse an address with or without a port or brackets; return None for other text."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def group_of(address: str) -> str:
    """Return the key under which an address is counted: itself, or for IPv6 its /64 network.

    A host that has one IPv6 address usually has the whole /64, and could use a new one each time.
    """
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((int(parsed), 64), strict=False))
    return address if parsed is None else str(parsed)
