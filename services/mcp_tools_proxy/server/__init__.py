"""The serving process: uvicorn with connection limits, and the stdio server.

``http_protocol`` enforces the limits; the smaller modules are its parts.
"""
