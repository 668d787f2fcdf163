-- Format of the text, date, own fields, warnings of the import, source and expiry. json, not jsonb,
-- keeps numbers as they were written: the version is their digest. Run as the owner.

ALTER TABLE mcp_tools_proxy.documents
    ADD COLUMN text_format text,
    ADD COLUMN date text COLLATE "C",
    ADD COLUMN metadata json NOT NULL DEFAULT '{}',
    ADD COLUMN warnings json NOT NULL DEFAULT '[]',
    ADD COLUMN source json,
    ADD COLUMN expires_at timestamptz;
CREATE INDEX documents_expiring ON mcp_tools_proxy.documents (expires_at)
    WHERE expires_at IS NOT NULL;

ALTER TABLE mcp_tools_proxy.versions
    ADD COLUMN text_format text,
    ADD COLUMN date text COLLATE "C",
    ADD COLUMN metadata json NOT NULL DEFAULT '{}';
