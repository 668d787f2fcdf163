-- Privileges of the gateway's role, granted by every migration, so that the role can be changed.
GRANT USAGE ON SCHEMA mcp_tools_proxy TO {{gateway}};
GRANT SELECT ON mcp_tools_proxy.migrations TO {{gateway}};
GRANT SELECT, INSERT, UPDATE, DELETE ON mcp_tools_proxy.documents, mcp_tools_proxy.pages,
    mcp_tools_proxy.sections, mcp_tools_proxy.chunks, mcp_tools_proxy.versions,
    mcp_tools_proxy.originals, mcp_tools_proxy.vectors, mcp_tools_proxy.logins,
    mcp_tools_proxy.runs TO {{gateway}};
GRANT SELECT, UPDATE, DELETE ON mcp_tools_proxy.sign_ins TO {{gateway}};
GRANT EXECUTE ON FUNCTION mcp_tools_proxy.has_doc_id(text), mcp_tools_proxy.changes_since(text),
    mcp_tools_proxy.outdated_documents(json, integer), mcp_tools_proxy.erase_ended_runs(),
    mcp_tools_proxy.add_sign_in(text, text, bytea, double precision, bigint, text),
    mcp_tools_proxy.approvals_of(text, integer) TO {{gateway}};
