"""Configuration files: mcp.json, agents.json, preset_<id>.json read, validated, watched, edited.

Each file has a module with its models, which are published as JSON Schema for editors (``schema``).
Other packages get domain values only: Configuration, Agents, Preset, or InvalidConfig with every
problem of a file.
"""
