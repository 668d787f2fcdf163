from mcp_tools_proxy.http.request_headers import Peers
from mcp_tools_proxy.wire.uris import group_of
from tests.support.tables import each_row

PROXIES = ("10.0.0.0/8", "fd00::/8", "127.0.0.1")


def peer(client: str | None, *forwarded: str, trusted: tuple[str, ...] = PROXIES) -> str:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in forwarded]
    scope = {"type": "http", "client": client and (client, 1234), "headers": headers}
    return Peers(trusted).address_of(scope)


@each_row(
    ("client", "forwarded", "expected"),
    [
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7, 10.2.3.4"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.7 , fd00::5"], "203.0.113.7"),
        ("10.0.0.1", ["203.0.113.7:41234"], "203.0.113.7"),
        ("10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", ["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.1", ["[2001:DB8:0::1]:443"], "2001:db8::1"),
        ("10.0.0.1", ["::ffff:203.0.113.7"], "203.0.113.7"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["203.0.113.7, garbage"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, garbage, 10.9.9.9"], "10.9.9.9"),
        ("10.0.0.1", ["203.0.113.7,"], "10.0.0.1"),
        ("10.0.0.1", ["\xff\xfe", ""], "10.0.0.1"),
        ("10.0.0.1", ["10.1.1.1, 10.2.2.2"], "10.1.1.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("203.0.113.9", ["1.1.1.1"], "203.0.113.9"),
        ("fd00::9", ["1.1.1.1"], "1.1.1.1"),
        ("10.0.0.1", ["203.0.113.7" + ", 10.0.0.2" * 31], "203.0.113.7"),
        ("10.0.0.1", ["203.0.113.7" + ", 10.0.0.2" * 32], "10.0.0.2"),
        (None, ["1.1.1.1"], "unknown"),
        ("a-socket", ["1.1.1.1"], "a-socket"),
    ],
)
def test_the_rightmost_untrusted_address_is_the_peer(
    client: str | None, forwarded: list[str], expected: str
) -> None:
    assert peer(client, *forwarded) == expected


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert peer("10.0.0.1", "1.1.1.1", trusted=()) == "10.0.0.1"


@each_row(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1:2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("203.0.113.7", "203.0.113.8", False),
        ("203.0.113.7", "::ffff:203.0.113.7", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_an_ipv6_network_of_64_bits_counts_as_one_sender(one: str, other: str, same: bool) -> None:
    assert (group_of(one) == group_of(other)) is same
