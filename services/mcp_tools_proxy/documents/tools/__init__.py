"""Local tools: for each a pydantic argument model and one async function (contract §2).

``build_local_tool`` builds a domain Tool from both. A tool reads documents through its repository,
always for ``call.caller.tenant_id``; names, descriptions and schemas are written for a model.
"""
