"""Schemas and tool definitions in the shape that model APIs take."""
