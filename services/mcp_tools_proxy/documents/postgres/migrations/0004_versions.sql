-- Older versions of documents, each whole in one row: they are read seldom. Without readers, for those
-- of the document count. Run as the owner.

CREATE TABLE mcp_tools_proxy.versions (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    version text NOT NULL,
    title text NOT NULL,
    tags text[] NOT NULL,
    page_count integer NOT NULL,
    section_count integer NOT NULL,
    text_chars bigint NOT NULL,
    has_chunks boolean NOT NULL,
    language text,
    ocr integer[] NOT NULL,
    pages text[] NOT NULL,
    sections json,
    chunks json,
    replaced_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, doc_id, version),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);

ALTER TABLE mcp_tools_proxy.versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_tools_proxy.versions FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON mcp_tools_proxy.versions
    USING (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''))
    WITH CHECK (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''));
CREATE POLICY all_tenants ON mcp_tools_proxy.versions TO CURRENT_USER
    USING (true) WITH CHECK (true);
