"""For clients of servers on this machine, which speak HTTP without TLS."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. Without it each client of httpx reads all authorities: 10 ms of CPU."""
