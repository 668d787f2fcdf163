-- Group in which sign-ins are counted: one tenant could use all places. Run as the owner.

ALTER TABLE mcp_tools_proxy.sign_ins ADD COLUMN share text COLLATE "C" NOT NULL DEFAULT '';

-- Returns the content of the stored record. Returns NULL if its kind has no free place, or if its share
-- already uses as many places as are free.
DROP FUNCTION mcp_tools_proxy.add_sign_in(text, text, bytea, double precision, bigint);
CREATE FUNCTION mcp_tools_proxy.add_sign_in(
    new_kind text, new_name text, new_content bytea, seconds double precision, most bigint, new_share text)
RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known bytea;
    taken bigint;
    own bigint;
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
    SELECT count(*), count(*) FILTER (WHERE share = new_share AND share <> '') INTO taken, own
        FROM mcp_tools_proxy.sign_ins WHERE kind = new_kind;
    IF most - taken <= own THEN RETURN NULL; END IF;
    INSERT INTO mcp_tools_proxy.sign_ins (kind, name, content, ends_at, share)
        VALUES (new_kind, new_name, new_content, clock_timestamp() + seconds * interval '1 s', new_share);
    RETURN new_content;
END
$$;
REVOKE ALL ON FUNCTION
    mcp_tools_proxy.add_sign_in(text, text, bytea, double precision, bigint, text) FROM PUBLIC;
