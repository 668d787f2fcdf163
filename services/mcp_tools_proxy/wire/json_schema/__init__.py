"""JSON Schema, pure: validating arguments, what that may cost, schemas for model APIs."""
