"""What values look like on every wire: text, JSON, identifiers, URIs, trace context. Pure."""
