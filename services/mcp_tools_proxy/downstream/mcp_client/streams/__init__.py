"""Transports with one stream each way: stdio and WebSocket.

Their dispatcher, ``duplex``, serves HTTP+SSE as well.
"""
