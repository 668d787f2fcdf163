-- Format of the text, date, own fields, warnings of the import, source and expiry. json, not jsonb,
-- keeps numbers as they were written: the version is their digest. own_fields has the folded values
-- of metadata, for filters. Run as the owner.

ALTER TABLE mcp_tools_proxy.documents
    ADD COLUMN text_format text,
    ADD COLUMN date text COLLATE "C",
    ADD COLUMN metadata json NOT NULL DEFAULT '{}',
    ADD COLUMN own_fields text[] NOT NULL DEFAULT '{}',
    ADD COLUMN warnings json NOT NULL DEFAULT '[]',
    ADD COLUMN source json,
    ADD COLUMN expires_at timestamptz;
CREATE INDEX documents_expiring ON mcp_tools_proxy.documents (expires_at)
    WHERE expires_at IS NOT NULL;

ALTER TABLE mcp_tools_proxy.versions
    ADD COLUMN text_format text,
    ADD COLUMN date text COLLATE "C",
    ADD COLUMN metadata json NOT NULL DEFAULT '{}';

-- Whether any tenant has an unexpired document with that id.
CREATE OR REPLACE FUNCTION mcp_tools_proxy.has_doc_id(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM mcp_tools_proxy.documents
        WHERE doc_id = wanted AND (expires_at IS NULL OR expires_at > now()))
$$;
