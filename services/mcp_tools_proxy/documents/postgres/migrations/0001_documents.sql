-- Documents, their parts, and the log of changes. Run as the owner.

CREATE TABLE mcp_tools_proxy.documents (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    version text NOT NULL,
    title text NOT NULL,
    tags text[] NOT NULL,
    page_count integer NOT NULL,
    section_count integer NOT NULL,
    text_chars bigint NOT NULL,
    has_chunks boolean NOT NULL,
    reader_users text[],
    reader_roles text[],
    imported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, doc_id),
    CHECK ((reader_users IS NULL) = (reader_roles IS NULL))
);
CREATE INDEX documents_doc_id ON mcp_tools_proxy.documents (doc_id);
CREATE INDEX documents_with_readers ON mcp_tools_proxy.documents (tenant_id)
    WHERE reader_users IS NOT NULL;

CREATE TABLE mcp_tools_proxy.pages (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (tenant_id, doc_id, number),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);

CREATE TABLE mcp_tools_proxy.sections (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    section_id text NOT NULL,
    title text NOT NULL,
    page_start integer NOT NULL,
    page_end integer NOT NULL,
    start_char integer,
    end_char integer,
    PRIMARY KEY (tenant_id, doc_id, place),
    UNIQUE (tenant_id, doc_id, section_id),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);

CREATE TABLE mcp_tools_proxy.chunks (
    tenant_id text COLLATE "C" NOT NULL,
    doc_id text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    chunk_id text NOT NULL,
    page integer NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (tenant_id, doc_id, place),
    FOREIGN KEY (tenant_id, doc_id) REFERENCES mcp_tools_proxy.documents ON DELETE CASCADE
);

-- Recent changes, for replicas that may have missed a notification.
CREATE TABLE mcp_tools_proxy.changes (
    tenant_id text NOT NULL,
    doc_id text NOT NULL,
    made_by xid8 NOT NULL DEFAULT pg_current_xact_id(),
    made_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX changes_made_by ON mcp_tools_proxy.changes (made_by);
CREATE INDEX changes_made_at ON mcp_tools_proxy.changes (made_at);

-- Without a tenant, or with an empty one, no rows are visible. FORCE applies this to the owner too,
-- which has its own policy.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['documents', 'pages', 'sections', 'chunks'] LOOP
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

CREATE FUNCTION mcp_tools_proxy.record_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF;
    INSERT INTO mcp_tools_proxy.changes (tenant_id, doc_id)
        VALUES (changed.tenant_id, changed.doc_id);
    -- A few at a time, and skipping rows of another writer, whose commit can take a minute.
    DELETE FROM mcp_tools_proxy.changes WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM mcp_tools_proxy.changes WHERE made_at < now() - interval '1 hour'
        LIMIT 100 FOR UPDATE SKIP LOCKED));
    PERFORM pg_notify(
        'mcp_tools_proxy_documents', json_build_array(changed.tenant_id, changed.doc_id)::text);
    RETURN NULL;
END
$$;
CREATE TRIGGER record_change AFTER INSERT OR UPDATE OR DELETE ON mcp_tools_proxy.documents
    FOR EACH ROW EXECUTE FUNCTION mcp_tools_proxy.record_change();

-- Whether any tenant has a document with that id: ACCESS_DENIED instead of DOCUMENT_NOT_FOUND.
CREATE FUNCTION mcp_tools_proxy.has_doc_id(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM mcp_tools_proxy.documents WHERE doc_id = wanted)
$$;

-- Documents changed by this transaction and later ones.
CREATE FUNCTION mcp_tools_proxy.changes_since(first text)
RETURNS TABLE (tenant_id text, doc_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT c.tenant_id, c.doc_id FROM mcp_tools_proxy.changes c
        WHERE c.made_by >= first::xid8
$$;

REVOKE ALL ON FUNCTION mcp_tools_proxy.record_change(), mcp_tools_proxy.has_doc_id(text),
    mcp_tools_proxy.changes_since(text) FROM PUBLIC;
