"""Hidden text of imported documents: the word "secret" beside "Seen."."""

from mcp_tools_proxy.domain.document import Document


def is_secret_hidden(document: Document) -> bool:
    """Return whether the text "secret" of a document is left out, and counted."""
    text = "".join(document.pages)
    assert "Seen." in text
    if "secret" in text:
        assert document.warnings == ()
        return False
    assert [it.message for it in document.warnings] == ["6 letters of hidden text were left out"]
    return True
