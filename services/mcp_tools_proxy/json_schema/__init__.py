"""JSON Schema: validation, its cost, and schemas as model APIs take them."""
