"""MCP Tools Proxy: the tool-execution gateway that an LLM runtime calls.

Each package below has one purpose, named in its docstring; imports go one way only
(docs/explanation/architecture.md). Ids such as (A-09) or "contract §6" in docstrings are the rules
that code follows: docs/reference/acceptance-criteria.md, docs/reference/contract.md. Nothing is
re-exported: import from the module that defines a name.
"""
