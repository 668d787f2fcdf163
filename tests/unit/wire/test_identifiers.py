"""What a remote backend may know a gateway by."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.wire.identifiers import is_server_identifier, server_identifier_of
from tests.support.tables import each_row


@each_row("text", ["a", "Gate.way_1-x", "...", "a" * 64])
def test_letters_digits_dots_underscores_and_hyphens_identify(text: str) -> None:
    assert is_server_identifier(text)


@each_row(
    "text",
    ["", ".", "..", "a" * 65, "a/b", "a b", "a\n", "ä", "%41", "{a}"],
)
def test_what_would_change_the_path_of_a_url_does_not_identify(text: str) -> None:
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
def test_every_host_name_becomes_a_good_identifier(hostname: str) -> None:
    assert is_server_identifier(server_identifier_of(hostname))
