"""JSON Schema: validating arguments, bounding the cost of it, adapting schemas for model APIs."""
