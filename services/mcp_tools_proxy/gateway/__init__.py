"""The verbs: look a name up, run one call through every check, reload, say how healthy we are.

No web framework and no SDK of MCP. Every entry (the HTTP API, the MCP facade) uses components
through the one ``Executor`` and lists them from the one registry, so none can skip a check.
"""
