"""Tools, prompts and resources of downstream servers as components of the gateway."""
