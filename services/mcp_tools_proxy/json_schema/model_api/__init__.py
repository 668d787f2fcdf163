"""Tool definitions and input schemas in the forms that model APIs accept (OpenAI, Anthropic)."""
