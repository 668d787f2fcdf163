-- What lists of documents show and compare: the language; title, id and tags without case, which the
-- gateway folds, those of documents that are there already as well (migrate.py). Run as the owner.

ALTER TABLE mcp_tools_proxy.documents
    ADD COLUMN language text,
    ADD COLUMN folded text[] NOT NULL DEFAULT '{}';
