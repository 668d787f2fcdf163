"""A small backend that the gateway's remote connector dials: many MCP sessions over one WebSocket.

``running_backend`` runs it inside a test, with faults on demand; ``python -m
tests.support.remote_backend`` runs it manually.
"""
