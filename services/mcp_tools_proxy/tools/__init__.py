"""Local tools: one module each, a pydantic argument model and one async function (contract §2).

``bind`` makes a domain Tool of them. A tool reads documents through the repository it is given,
always for ``call.caller.tenant_id``; names, descriptions and schemas are written for a model.
"""
