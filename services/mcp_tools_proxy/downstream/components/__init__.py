"""Tools, prompts and resources of downstream servers, as components that the gateway calls."""
