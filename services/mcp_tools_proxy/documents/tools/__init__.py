"""Local tools: each has a pydantic argument model and one async function (contract §2).

``build_local_tool`` builds a domain Tool from both. Tools read documents through the repository, as
``call.caller``; names, descriptions and schemas are written for models.
"""
