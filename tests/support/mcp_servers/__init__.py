"""Real MCP servers for the tests.

``raw`` and its imports are SDK-free and scripted for faults and load; ``sdk_server`` uses the SDK
and behaves correctly. Both run as programs and inside a test.
"""
