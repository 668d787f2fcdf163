"""The tools by which a model finds documents that it was told no id of."""
