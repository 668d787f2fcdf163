"""Configuration files (mcp.json, agents.json, presets): read, validated, watched and edited.

Each file has a module with its models, published as JSON Schema (``schema``). Other packages
receive domain values only: Configuration, Agents, Preset, or InvalidConfig with all problems of a
file.
"""
