"""Real MCP servers for the tests.

``raw`` and what it imports are SDK-free and scripted for faults and load; ``sdk_server`` is built
on the SDK and behaves as a well-kept server does. Both run as programs and inside a test.
"""
