-- Logins at the issuers of MCP servers, sealed by the gateway, which alone has the key; and who renews
-- one now. Owner and binding are JSON in UTF-8 that may hold what text may not. Run as the owner.

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

-- Logins of the deployment are of no tenant. A transaction that names none sees them only if it has
-- set that as well: who forgot to name a tenant sees no row.
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
