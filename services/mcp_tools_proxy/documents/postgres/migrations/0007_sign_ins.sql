-- Unfinished sign-ins, encrypted by the gateway and named by digests that need its key. Run as the
-- owner.

CREATE TABLE mcp_tools_proxy.sign_ins (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    content bytea NOT NULL,
    ends_at timestamptz NOT NULL,
    PRIMARY KEY (kind, name)
);
CREATE INDEX sign_ins_ends_at ON mcp_tools_proxy.sign_ins (ends_at);

-- An issuer's response contains no tenant, only its state: a transaction sees the record that it names
-- and cannot list records. Only the function below adds records.
ALTER TABLE mcp_tools_proxy.sign_ins ENABLE ROW LEVEL SECURITY;
ALTER TABLE mcp_tools_proxy.sign_ins FORCE ROW LEVEL SECURITY;
CREATE POLICY named_record ON mcp_tools_proxy.sign_ins
    USING (name = nullif(current_setting('mcp_tools_proxy.sign_in', true), ''))
    WITH CHECK (name = nullif(current_setting('mcp_tools_proxy.sign_in', true), ''));
CREATE POLICY all_records ON mcp_tools_proxy.sign_ins TO CURRENT_USER USING (true) WITH CHECK (true);

-- Returns the content of the stored record, or NULL if the limit of its kind is reached.
CREATE FUNCTION mcp_tools_proxy.add_sign_in(
    new_kind text, new_name text, new_content bytea, seconds double precision, most bigint)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bytea;
BEGIN
    -- An address is requested again with each call, so an existing record needs no lock.
    SELECT content INTO known FROM mcp_tools_proxy.sign_ins
        WHERE kind = new_kind AND name = new_name AND ends_at > clock_timestamp();
    IF FOUND THEN RETURN known; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('mcp_tools_proxy.sign_ins', 0));
    DELETE FROM mcp_tools_proxy.sign_ins WHERE ends_at <= clock_timestamp();
    SELECT content INTO known FROM mcp_tools_proxy.sign_ins
        WHERE kind = new_kind AND name = new_name;
    IF FOUND THEN RETURN known; END IF;
    IF (SELECT count(*) FROM mcp_tools_proxy.sign_ins WHERE kind = new_kind) >= most THEN
        RETURN NULL;
    END IF;
    INSERT INTO mcp_tools_proxy.sign_ins (kind, name, content, ends_at)
        VALUES (new_kind, new_name, new_content, clock_timestamp() + seconds * interval '1 s');
    RETURN new_content;
END
$$;
REVOKE ALL ON FUNCTION
    mcp_tools_proxy.add_sign_in(text, text, bytea, double precision, bigint) FROM PUBLIC;
