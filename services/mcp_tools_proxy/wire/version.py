"""The program's version, for clients, servers and OpenAPI."""

from importlib.metadata import version

VERSION = version("mcp-tools-proxy")
"""Read once: the lookup parses the package's metadata, which takes milliseconds."""
