"""The serving process: uvicorn with bounds on each connection, and the stdio server.

``http_protocol`` has the bounds; the small modules beside it are parts of it.
"""
