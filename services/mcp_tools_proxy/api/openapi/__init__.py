"""What describes the HTTP API in its OpenAPI document; nothing here serves a request."""
