-- Approvals of calls are records beside unfinished sign-ins, and people list those of their tenant.
-- Run as the owner.

CREATE INDEX sign_ins_share ON mcp_tools_proxy.sign_ins (share, ends_at) WHERE kind = 'approval';

-- Returns the approvals of a share, the last to expire first. Sign-ins and sessions cannot be listed.
CREATE FUNCTION mcp_tools_proxy.approvals_of(wanted_share text, most integer) RETURNS SETOF bytea
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT content FROM mcp_tools_proxy.sign_ins
    WHERE kind = 'approval' AND share = wanted_share AND share <> '' AND ends_at > clock_timestamp()
    ORDER BY ends_at DESC LIMIT most
$$;
REVOKE ALL ON FUNCTION mcp_tools_proxy.approvals_of(text, integer) FROM PUBLIC;
