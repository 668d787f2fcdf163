"""The version of the program, as it names itself to clients, servers and in OpenAPI."""

from importlib.metadata import version

VERSION = version("mcp-tools-proxy")
"""Read once: looking it up parses the package's metadata, which takes milliseconds."""
