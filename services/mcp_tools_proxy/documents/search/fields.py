"""The fields of an index: texts of chunks and pages, and the chunk's place in the document."""

CHUNK_TEXT = "text"
PAGE_TEXT = "page_text"
"""The text of a whole page, in the entry of its first chunk."""

PLACE = "place"
TOKENIZER = "words"
