"""MCP Tools Proxy: the tool-execution gateway that an LLM runtime calls.

Each package below is a room with one purpose, told in its docstring; imports go one way only
(docs/explanation/architecture.md). Nothing is re-exported: import from the module that defines a
name.
"""
