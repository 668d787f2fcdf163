"""Configuration files (mcp.json, agents.json, presets): read, validated, watched and edited.

Each file has a module with its models, published as JSON Schema for editors (``schema``). Other
packages receive only domain values: Configuration, Agents, Preset, or InvalidConfig with all
problems of a file.
"""
