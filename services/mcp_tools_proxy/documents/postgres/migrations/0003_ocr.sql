-- How sure the OCR of each page was, in per cent; NULL for a page whose text is the file's own. Empty
-- for a document without OCR. Run as the owner.

ALTER TABLE mcp_tools_proxy.documents ADD COLUMN ocr integer[] NOT NULL DEFAULT '{}';
