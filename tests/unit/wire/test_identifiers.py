from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.wire.identifiers import is_server_identifier, server_identifier_of
from tests.support.tables import each_row


@each_row("text", ["a", "Gate.way_1-x", "...", "a" * 64])
def test_letters_digits_dots_underscores_and_hyphens_are_valid(text: str) -> None:
    assert is_server_identifier(text)


@each_row(
    "text",
    ["", ".", "..", "a" * 65, "a/b", "a b", "a\n", "ä", "%41", "{a}"],
)
def test_characters_that_change_a_url_path_are_invalid(text: str) -> None:
    assert not is_server_identifier(text)


@each_row(
    ("hostname", "identifier"),
    [
        ("Web-01.Example.COM", "mcp-tools-proxy-web-01.example.com"),
        ("my laptop_2", "mcp-tools-proxy-my-laptop_2"),
        ("", "mcp-tools-proxy-"),
        ("x" * 100, "mcp-tools-proxy-" + "x" * 48),
    ],
)
def test_a_host_name_becomes_an_identifier(hostname: str, identifier: str) -> None:
    assert server_identifier_of(hostname) == identifier


@given(st.text())
def test_every_host_name_becomes_a_valid_identifier(hostname: str) -> None:
    assert is_server_identifier(server_identifier_of(hostname))
