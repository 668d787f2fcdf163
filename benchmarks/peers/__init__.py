"""The gateway beside other open gateways: the same echo server, client and machine, in turns.

``python -m benchmarks.peers`` fetches the peers at pinned versions and prints one table. What one
peer needs (its command, tool name and endpoints) is in ``catalogue``; the rest is common to all.
"""
