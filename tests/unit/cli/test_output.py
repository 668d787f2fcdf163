import json

from hypothesis import given
from hypothesis import strategies as st
from typer import Typer
from typer.testing import CliRunner

from mcp_tools_proxy.cli.output import print_json
from tests.support.tables import each_row


def printed(value: object) -> str:
    app = Typer()
    app.command()(lambda: print_json({"text": value}))
    return CliRunner().invoke(app, []).stdout


@each_row("text", ["\x1b[31m", "\x9b31m", "a\u202eb", "\u2028", "\ud800", "\U000e0041"])
def test_control_characters_are_escaped(text: str) -> None:
    out = printed(text)
    assert (json.loads(out), out.rstrip("\n").isprintable()) == ({"text": text}, True)


def test_letters_of_any_script_are_readable() -> None:
    assert printed("Договор №7 – 契約 😀") == '{"text": "Договор №7 – 契約 😀"}\n'


@given(st.text(st.characters(codec=None)))
def test_printed_texts_round_trip(text: str) -> None:
    assert json.loads(printed(text)) == {"text": text}
