"""Shared by the HTTP API and MCP over HTTP: bodies, headers, guards, disconnects, the envelope."""
