"""Remote components: sessions with downstream MCP servers, what they offer, and using it.

``connection`` is the seam: below it lie the transports, the only code that knows the ``mcp``
package's client, above it sessions, discovery and components. Whatever goes wrong below arrives
above as one of four exceptions, and leaves this room as one of ``domain.errors``.
"""
