"""What becomes a sentence of a message, and which first words are names."""

from mcp_tools_proxy.console.page_text import sentence
from tests.support.tables import each_row


@each_row(
    ("message", "shown"),
    [
        ("the token is not known here", "The token is not known here."),
        ("don't do that", "Don't do that."),
        ("no, never", "No, never."),
        ("It has a stop.", "It has a stop."),
        ("what is it?", "What is it?"),
        ("cut to a part…", "Cut to a part…"),
        ("refused", "Refused."),
        ("weather:calibrate failed", "weather:calibrate failed."),
        ("arguments.place.name: is shorter than 3", "arguments.place.name: is shorter than 3."),
        ("language: is none", "language: is none."),
        ("doc_id is missing", "doc_id is missing."),
        ("internal/mcp is no path", "internal/mcp is no path."),
        ("v2 is not there", "v2 is not there."),
        ('"x" is no tool', '"x" is no tool.'),
        ("my-server is away", "my-server is away."),
        ("maxItems is too small", "maxItems is too small."),
        ("  blanks around  ", "Blanks around."),
        ("", ""),
    ],
)
def test_a_message_is_a_sentence_and_its_names_stay_names(message: str, shown: str) -> None:
    assert sentence(message) == shown
    assert sentence(shown) == shown
