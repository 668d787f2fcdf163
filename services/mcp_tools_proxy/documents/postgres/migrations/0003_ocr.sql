-- OCR confidence of each page in per cent; NULL for a page with its own text. Empty for a document
-- without OCR. Run as the owner.

ALTER TABLE mcp_tools_proxy.documents ADD COLUMN ocr integer[] NOT NULL DEFAULT '{}';
