"""TLS settings for clients of plain HTTP servers on this machine."""

import ssl

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority, because loading the system's takes each httpx client 10 ms of CPU."""
