from mcp_tools_proxy.wire.uris import is_normalized_path
from tests.support.tables import each_row


@each_row(
    "uri",
    [
        "notes://public/a",
        "notes://public/a.b/..c/...",
        "file:///public/a%2Fb",
        "https://x/a?path=../b",
        "notes://x#/../",
        "notes://публично/é",
        "urn:isbn:123",
        "notes://public/a;v=..",
        "notes://public/100%2525",
    ],
)
def test_a_plain_uri_is_normalized(uri: str) -> None:
    assert is_normalized_path(uri)


@each_row(
    "uri",
    [
        "notes://public/../private",
        "notes://public/..",
        "notes://public/./a",
        "file:///public/%2e%2E/private",
        "file:///public/.%2e",
        "file:///public/..%2Fprivate",
        "file:///public/a%5c..%5cprivate",
        "file:///public/..\\private",
        "notes:../private",
        "notes://public/%252e%252e/private",
        "notes://public/%25252e%25252e/private",
        "notes://public/..;v=1/private",
        "notes://public/.%3b/a",
        "notes://public/a\n",
        "notes://public/.\t./private",
        "notes://public/%00",
    ],
)
def test_a_uri_with_path_traversal_is_not_normalized(uri: str) -> None:
    assert not is_normalized_path(uri)
