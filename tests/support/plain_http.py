"""For clients of servers on this machine, which speak HTTP without TLS."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority: loading those of the system takes each httpx client 10 ms of CPU."""
