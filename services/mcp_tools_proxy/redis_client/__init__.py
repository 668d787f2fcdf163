"""Connections to the Redis that replicas share: for budgets (``ratelimit``) and MCP sessions."""
