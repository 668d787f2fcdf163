"""Sessions of MCP's older eras over streamable HTTP, which any replica with the key can serve.

``session_ids`` signs and reads their ids; ``session_records`` has what is remembered of each, and
``shared_sessions`` what replicas tell each other of it by Redis. ``live_sessions`` holds what a
client has open, ``session_stream`` its stream.
"""
