-- Vectors of a document's chunks, for search by meaning: of one version, by one model, as concatenated
-- half floats. Run as the owner.

CREATE TABLE mcp_tools_proxy.vectors (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    version text NOT NULL,
    model text NOT NULL,
    dimension integer NOT NULL CHECK (dimension > 0),
    data bytea NOT NULL,
    PRIMARY KEY (tenant_id, doc_id),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);

ALTER TABLE mcp_tools_proxy.vectors ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_tools_proxy.vectors FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON mcp_tools_proxy.vectors
    USING (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''))
    WITH CHECK (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''));
CREATE POLICY all_tenants ON mcp_tools_proxy.vectors TO CURRENT_USER USING (true) WITH CHECK (true);
