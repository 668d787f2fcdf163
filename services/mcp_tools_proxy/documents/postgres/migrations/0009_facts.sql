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

-- Documents of all tenants that have expired, or that are older than the first rule that matches them
-- allows: [[text, folded tag or null, seconds or null], ...]. Finds none while another transaction
-- that called it continues, so that one replica at a time removes them.
CREATE FUNCTION mcp_tools_proxy.outdated_documents(rules json, most integer)
RETURNS TABLE (tenant_id text, doc_id text, version text, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('mcp_tools_proxy.retention', 0)) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT d.tenant_id::text, d.doc_id::text, d.version,
        CASE WHEN d.expires_at <= now() THEN 'expired' ELSE rule.it ->> 0 END
    FROM mcp_tools_proxy.documents d
    LEFT JOIN LATERAL (
        SELECT listed.it FROM json_array_elements(rules) WITH ORDINALITY AS listed(it, place)
        WHERE listed.it ->> 1 IS NULL OR listed.it ->> 1 = ANY (d.folded[3:])
        ORDER BY listed.place LIMIT 1
    ) AS rule ON true
    WHERE d.expires_at <= now()
        OR d.imported_at <= now() - (rule.it ->> 2)::double precision * interval '1 second'
    ORDER BY d.tenant_id, d.doc_id LIMIT most;
END
$$;
REVOKE ALL ON FUNCTION mcp_tools_proxy.outdated_documents(json, integer) FROM PUBLIC;
