-- Older versions of documents, one row each, because they are rarely read, and the kept source PDFs.
-- Without readers: those of the current document apply. Run as the owner.

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

CREATE TABLE mcp_tools_proxy.originals (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    version text NOT NULL,
    content bytea NOT NULL,
    kept_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, doc_id),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);
-- PDFs are already compressed.
ALTER TABLE mcp_tools_proxy.originals ALTER COLUMN content SET STORAGE EXTERNAL;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['versions', 'originals'] LOOP
        EXECUTE format('ALTER TABLE mcp_tools_proxy.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE mcp_tools_proxy.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format(
            'CREATE POLICY own_tenant ON mcp_tools_proxy.%I '
            'USING (tenant_id = nullif(current_setting(''mcp_tools_proxy.tenant'', true), '''')) '
            'WITH CHECK (tenant_id = nullif(current_setting(''mcp_tools_proxy.tenant'', true), ''''))',
            name);
        EXECUTE format(
            'CREATE POLICY all_tenants ON mcp_tools_proxy.%I TO CURRENT_USER '
            'USING (true) WITH CHECK (true)',
            name);
    END LOOP;
END
$$;
