from mcp_tools_proxy.console.page_text import sentence
from tests.support.tables import each_row


@each_row(
    ("message", "shown"),
    [
        ("the token is not known here", "The token is not known here."),
        ("don't do that", "Don't do that."),
        ("no, never", "No, never."),
        ("It has a stop.", "It has a stop."),
        ("is it valid?", "Is it valid?"),
        ("cut to a part…", "Cut to a part…"),
        ("refused", "Refused."),
        ("weather:calibrate failed", "weather:calibrate failed."),
        ("arguments.place.name: is shorter than 3", "arguments.place.name: is shorter than 3."),
        ("language: is empty", "language: is empty."),
        ("doc_id is missing", "doc_id is missing."),
        ("internal/mcp is not a path", "internal/mcp is not a path."),
        ("v2 is not there", "v2 is not there."),
        ('"x" is not a tool', '"x" is not a tool.'),
        ("my-server is away", "my-server is away."),
        ("maxItems is too small", "maxItems is too small."),
        ("  blanks around  ", "Blanks around."),
        ("", ""),
    ],
)
def test_a_message_becomes_a_sentence_without_capitalizing_names(message: str, shown: str) -> None:
    assert sentence(message) == shown
    assert sentence(shown) == shown
