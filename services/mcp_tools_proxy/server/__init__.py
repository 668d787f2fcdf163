"""The process that serves: the HTTP server with its bounds, and stdio."""
