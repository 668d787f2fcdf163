-- Logins at the issuers of MCP servers, encrypted with the gateway's key, and the lease for renewing
-- each. Owner and binding are JSON in UTF-8, which can contain U+0000, unlike text. Run as
-- the owner.

CREATE TABLE mcp_tools_proxy.logins (
    owner_key bytea PRIMARY KEY,
    tenant_id text COLLATE "C" NOT NULL,
    owner bytea NOT NULL,
    binding bytea NOT NULL,
    sealed bytea NOT NULL,
    version text NOT NULL,
    refresh_sent boolean NOT NULL DEFAULT false,
    lease_holder text,
    leased_until timestamptz,
    CHECK ((lease_holder IS NULL) = (leased_until IS NULL))
);
CREATE INDEX logins_tenant_id ON mcp_tools_proxy.logins (tenant_id);

-- Logins of the deployment have no tenant. A transaction without a tenant sees them only if it also
-- sets deployment_logins, so that a forgotten tenant shows no rows.
ALTER TABLE mcp_tools_proxy.logins ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_tools_proxy.logins FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON mcp_tools_proxy.logins
    USING (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''))
    WITH CHECK (tenant_id = nullif(current_setting('mcp_tools_proxy.tenant', true), ''));
CREATE POLICY of_deployment ON mcp_tools_proxy.logins
    USING (tenant_id = '' AND coalesce(current_setting('mcp_tools_proxy.tenant', true), '') = ''
        AND current_setting('mcp_tools_proxy.deployment_logins', true) = 'on')
    WITH CHECK (tenant_id = '' AND coalesce(current_setting('mcp_tools_proxy.tenant', true), '') = ''
        AND current_setting('mcp_tools_proxy.deployment_logins', true) = 'on');
CREATE POLICY all_tenants ON mcp_tools_proxy.logins TO CURRENT_USER USING (true) WITH CHECK (true);
