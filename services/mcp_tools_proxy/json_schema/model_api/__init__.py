"""Tool definitions and input schemas as OpenAI, Anthropic and Gemini accept them."""
