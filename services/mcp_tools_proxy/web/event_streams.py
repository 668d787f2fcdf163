"""What responses of server-sent events have in common."""

PING_S = 15.0
"""Seconds of silence after which a comment is sent: proxies cut connections that stay silent."""

PING = b": ping\r\n\r\n"

EVENT_STREAM = "text/event-stream"

STREAM_HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
"""They keep proxies from holding events back."""
