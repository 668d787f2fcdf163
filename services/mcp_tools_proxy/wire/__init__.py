"""What values look like on every wire: text, JSON, content blocks, identifiers, URIs. Pure."""
