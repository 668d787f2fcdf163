-- Columns for lists of documents: the language, and the title, id and tags without case. The gateway
-- folds these, also for existing documents (schema.py). Run as the owner.

ALTER TABLE mcp_tools_proxy.documents
    ADD COLUMN language text,
    ADD COLUMN folded text[] NOT NULL DEFAULT '{}';
