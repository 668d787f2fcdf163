"""The verbs: look a name up, run one call through every check, reload, say how healthy we are.

No web framework, no protocol words: every entry (REST, batch, later the MCP facade and the remote
connector) comes in through ``Executor.execute``, so no entry can skip a check.
"""
