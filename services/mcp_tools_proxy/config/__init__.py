"""Configuration files: mcp.json, agents.json, preset_<id>.json read, checked, watched, edited.

One schema (``schema``), enforced here and published as JSON Schema files for editors. What leaves
this room is domain: Configuration, Agents, Preset, or InvalidConfig with every problem of the file.
"""
