"""Configuration files: mcp.json, agents.json, preset_<id>.json read, validated, watched, edited.

``schema`` has the models that validate the files and are published as JSON Schema for editors.
Other packages get domain values only: Configuration, Agents, Preset, or InvalidConfig with every
problem of a file.
"""
