"""MCP in: what a caller may list and use, as an MCP server over HTTP, SSE and stdio.

Every use ends at the executor, every list comes from the registry: the facade decides nothing.
"""
