"""Whether a host is this machine and nobody else's."""

from ipaddress import ip_address

ANY_HOST = "*"
"""Stands for every host where hosts are listed."""


def is_loopback(host: str) -> bool:
    """Tell whether who listens on ``host`` is reached from its own machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
