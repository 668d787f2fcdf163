"""The verbs: resolve a name, run one call through every check, reload, report readiness.

No web framework and no MCP SDK here. Every entry (the HTTP API, the MCP server, the connector)
calls components through the one ``Executor`` and lists them from the one registry, so no entry can
skip a check.
"""
