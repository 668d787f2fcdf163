"""Core operations: name resolution, execution of calls with all checks, reload, and readiness.

Contains no web framework and no MCP SDK. All entries (HTTP API, MCP server, connector) use one
``Executor`` for calls and one registry for lists, so no entry can skip a check.
"""
