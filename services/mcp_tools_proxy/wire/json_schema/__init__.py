"""JSON Schema, pure: validation of arguments, its cost, and schemas for model APIs."""
