-- Runs: their memory, encrypted by the gateway, and the mark that stays when a run has ended.
-- Documents: whether a run that reads them has read text of strangers. Run as the owner.

CREATE TABLE mcp_tools_proxy.runs (
    tenant_id text COLLATE "C" NOT NULL,
    run_key bytea NOT NULL,
    owner_key bytea NOT NULL,
    version bigint NOT NULL,
    content bytea,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ends_at timestamptz NOT NULL,
    mark_ends_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_key)
);
CREATE INDEX runs_owner_key ON mcp_tools_proxy.runs (tenant_id, owner_key, began_at);
CREATE INDEX runs_ends_at ON mcp_tools_proxy.runs (ends_at) WHERE content IS NOT NULL;
CREATE INDEX runs_mark_ends_at ON mcp_tools_proxy.runs (mark_ends_at);

ALTER TABLE mcp_tools_proxy.runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_tools_proxy.runs FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON mcp_tools_proxy.runs
    USING (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''))
    WITH CHECK (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''));
CREATE POLICY all_tenants ON mcp_tools_proxy.runs TO CURRENT_USER USING (true) WITH CHECK (true);

-- Erases the content of idle runs, and old marks, of all tenants.
CREATE FUNCTION mcp_tools_proxy.erase_ended_runs() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE mcp_tools_proxy.runs SET content = NULL
        WHERE ends_at <= clock_timestamp() AND content IS NOT NULL;
    DELETE FROM mcp_tools_proxy.runs WHERE mark_ends_at <= clock_timestamp();
END
$$;
REVOKE ALL ON FUNCTION mcp_tools_proxy.erase_ended_runs() FROM PUBLIC;

ALTER TABLE mcp_tools_proxy.documents ADD COLUMN untrusted boolean NOT NULL DEFAULT false;
ALTER TABLE mcp_tools_proxy.versions ADD COLUMN untrusted boolean NOT NULL DEFAULT false;
