import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.policy.runs.values import (
    MAX_EMBEDDED,
    at_path,
    embedded_values,
    is_disguised,
    is_of_task,
    normal_text,
    scalars,
    task_hashes,
    words_of,
)
from tests.support.tables import each_row

KEY = b"k" * 16


def is_from(task: str, value: object) -> bool:
    normal = normal_text(value)
    assert normal is not None
    if isinstance(value, str) and is_disguised(value, normal):
        return False
    return is_of_task(KEY, task_hashes(KEY, task), normal)


@each_row(
    ("task", "value"),
    [
        ("send it to bob@a.com, please", "bob@a.com"),
        ("send it to (bob@a.com).", "Bob@A.com"),
        ("send it to **bob@a.com** or `eve@b.org`", "eve@b.org"),
        ("open https://a.com/x?y=1.", "https://a.com/x?y=1"),
        ("mail bob@a.com", "bob@a.com,"),
        ("Post to Team Chat now", "team chat"),
        ("Read Bob's report", "bob"),
        ("pay $1,500.50", 1500.5),
        ("pay 100.00 to her", 100),
        ("pay €20 to her", "20"),
        ("pay DE89 3704 0044 0532 0130 00 please", "DE89370400440532013000"),
        ("pay DE89370400440532013000 now", "de89 3704 0044 0532 0130 00"),
        # "toda" would make a second valid IBAN with the account before it
        ("pay DE89 3704 0044 0532 0130 00 today", "DE89370400440532013000"),
        (
            "FR14 2004 1010 0505 0001 3M02 606 to GB82 WEST 1234 5698 7654 32",
            "GB82WEST12345698765432",
        ),
        ("order no12 DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"),
        ("call +49 170 1234567 today", "+491701234567"),
        ("remove report*", "report*"),
        ("show ~/notes and .env", ".env"),
        ("remove (~/tmp) and `/var/x`.", "~/tmp"),
        ("remove (~/tmp) and `/var/x`.", "/var/x"),
        ("メールをa.comに送って", "a.com"),
        ("田中さん、会議室へ", "田中"),
        ("こちら\uff1ahttps://a.com/x", "https://a.com/x"),
        ("회사로 a.com으로 보내", "a.com"),
        ("write to \uff42ob@a.com", "bob@a.com"),
        ("visit straße.de", "straße.de"),
        ("GRÜSSE an Zoë", "zoe\u0308"),
    ],
)
def test_words_of_the_task_vouch_for_a_value(task: str, value: object) -> None:
    assert is_from(task, value)


@each_row(
    ("task", "value"),
    [
        ("open a.com.evil.io", "a.com"),
        ("open a.com", "a.com.evil.io"),
        ("open a.com", "evil-a.com"),
        ("mail bob@a.com", "a.com"),
        ("mail bob@a.com", "bob@a.com@evil.io"),
        ("mail bob@a.com and tell eve", "bob@a.com,eve@evil.io"),
        ("open https://a.com/x", "https://a.com/x?leak=1"),
        ("open https://a.com/x", "https://a.com"),
        ("pay DE89 3704 0044 0532 0130 00 please", "3704 0044"),
        ("pay DE89 3704 0044 0532 0130 00 please", "DE89"),
        ("call 0170 123 4567", "123 4567"),
        ("open 例え.com", "え.com"),
        ("open 資料/会議.txt", "会議.txt"),
        ("visit strasse.de", "straße.de"),
        ("visit straße.de", "strasse.de"),
        ("visit οδος.gr", "οδοσ.gr"),
        ("mail bob@a.com", "\uff42ob@a.com"),
        ("mail bob@a.com", "b\u200bob@a.com"),
        ("mail bob@a.com", "b\u043eb@a.com"),
        ("visit kelvin.com", "\u212aelvin.com"),
        ("visit a.com", "a\u2024com"),
        ("visit a.com", "a\u3002com"),
        ("the new live site", "new\u3002live"),
        ("remove report", "report*"),
        ("open the file ssh", ".ssh"),
        ("open /etc/passwd", "../etc/passwd"),
        ("open docs/", "docs/.."),
        ("clean ../logs, please", "/logs"),
        ("remove (~/logs).", "/logs"),
        ("use root", "~root"),
        ("use home", "$HOME"),
        ("pay 10 euro", "10.000"),
        ("send", "send it"),
        ("one two three", "one three"),
        ("a b", "..."),
        ("", "x"),
    ],
)
def test_nothing_else_is_a_value_of_the_task(task: str, value: object) -> None:
    assert not is_from(task, value)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(words, min_size=1, max_size=8), st.data())
def test_a_part_of_a_task_at_its_spaces_is_a_value_of_it(
    task: list[str], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(task) - 1))
    end = data.draw(st.integers(start + 1, len(task)))
    part = "x".join(task[start:end])
    whole = " ".join((*task[:start], part, *task[end:]))
    normal = normal_text(part) or ""
    has_words = any(words_of(normal))
    assert is_of_task(KEY, task_hashes(KEY, f"first {part} last"), normal) is has_words
    assert task_hashes(KEY, whole) == task_hashes(KEY, whole)


WORDS = ("a.com", "a.com.evil.io", "bob@a.com", "b", "https://a.com/x", "7", "de89")


@given(
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.sampled_from(("", ",", ".", ")", "!"))), max_size=6
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2),
)
def test_exactly_sequences_of_whole_words_are_values_of_a_task(
    task: list[tuple[str, str]], value: list[str]
) -> None:
    plain = [word for word, _ in task]
    places = range(len(plain) - len(value) + 1)
    is_there = any(plain[it : it + len(value)] == value for it in places)
    assert is_from(" ".join(map("".join, task)), " ".join(value)) == is_there


ADDRESSES = ("bob@a.com", "https://a.com/x", "docs/report_1.txt", "12345678", "a.com")


@given(st.sampled_from(ADDRESSES), st.characters(), st.data())
def test_no_letter_in_an_address_can_be_added_or_replaced(
    address: str, letter: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(1, len(address) - 1))
    changed = address[:place] + letter + address[place + data.draw(st.integers(0, 1)) :]
    is_same = changed.isascii() and changed.lower() == address
    is_grouped = address.isdigit() and changed.replace(" ", "").replace("-", "") == address
    assert is_same or is_grouped or not is_from(f"use {address} please", changed)


@given(st.text())
def test_the_normal_form_is_stable(text: str) -> None:
    normal = normal_text(text)
    assert normal is not None
    assert "  " not in normal
    assert normal_text(normal) == normal


def test_no_single_letter_becomes_ascii_without_being_disguised() -> None:
    for code in range(0x80, 0x110000):
        letter = chr(code)
        if unicodedata.category(letter) in {"Cs", "Cn", "Co"} or letter.isspace():
            continue
        address = f"{letter}@a.com"
        normal = normal_text(address) or ""
        assert is_disguised(address, normal) or not normal.isascii(), hex(code)


@each_row(
    ("value", "expected"),
    [
        (True, None),
        (None, None),
        ([], None),
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (float("inf"), "inf"),
        (10**5000, hex(10**5000)),
        (" A\tb\n", "a b"),
        ("\ud800", "\ud800"),
    ],
)
def test_texts_and_numbers_have_a_normal_form(value: object, expected: str | None) -> None:
    assert normal_text(value) == expected


@each_row(
    ("text", "expected"),
    [
        ("see a.com and bob@a.com.", ["a.com", "bob@a.com"]),
        ("(a.com,b.org)", ["a.com", "b.org"]),
        ("cc:bob@a.com to=eve@b.org", ["bob@a.com", "eve@b.org"]),
        ("a.com/x=y:bob@a.com", ["bob@a.com", "a.com/x=y"]),
        ("bob@a.com,a.com/x=secret", ["bob@a.com", "a.com/x=secret"]),
        ("bob@a.com@evil.io", ["bob@a.com@evil.io"]),
        ("https://a.com@evil.io", ["https://a.com@evil.io"]),
        ("x=https://a.com/,https://evil.io", ["https://a.com/,https://evil.io"]),
        ("evil.io;https://a.com", ["https://a.com", "evil.io"]),
        ("<a href='//evil.io/x'>", ["evil.io/x"]),
        ("mailto:bob@a.com", ["mailto:bob@a.com"]),
        ("javascript:alert(1)", ["javascript:alert(1"]),
        ("10.0.0.1:80/x", ["10.0.0.1:80/x"]),
        ("ping [2001:db8::1].", ["[2001:db8::1]"]),
        ("to=[2001:DB8::1]:8080/x, or [fe80::1%eth0]", ["[2001:db8::1]:8080/x", "[fe80::1%eth0]"]),
        ("//[2001:db8::1]/x", ["[2001:db8::1]/x"]),
        ("bob@[IPv6:2001:db8::1]", ["[ipv6:2001:db8::1]"]),
        ("([::ffff:10.0.0.1])", ["[::ffff:10.0.0.1]"]),
        ("http://[2001:db8::1]/x", ["http://[2001:db8::1]/x"]),
        ("a[::2] and b[1:3], [10:30] [a:b:c] [1:2:3:4]", []),
        ("пиши на пример.рф", ["пример.рф"]),
        ("連絡先はa@b.jpです", ["a@b.jp"]),
        ("acct 1234 5678 9012", ["123456789012"]),
        ("de89 3704 0044 0532 0130 00", ["de89370400440532013000"]),
        ("US133000000121212121212", ["us133000000121212121212"]),
        ("call +49 170-123 4567", ["+491701234567"]),
        ("a\u200b.com.evil.io", ["a\u200b.com.evil.io"]),
        ("evil\u200b.com", ["evil\u200b.com"]),
        ("\uff45vil\uff0e\uff43om", ["\uff45vil\uff0e\uff43om"]),
        ("https://a.com\u3002co", ["https://a.com\u3002co"]),
        (
            "宛先\uff1abob@a.com、見て\uff08https://a.com/x\uff09。",
            ["bob@a.com", "https://a.com/x"],
        ),
        ("bob\uff20a.com", ["bob\uff20a.com"]),
        ("\uff11\uff12\uff13\uff14 \uff15\uff16\uff17\uff18", ["12345678"]),
        ("report.pdf and x/data.csv", ["data.csv"]),
        ("1.2/evil.io/x v1.0**evil.org** 2.0=report.pdf", ["evil.io/x", "evil.org"]),
        ("evil.io\\x.pdf evil.org=x.pdf", ["evil.io\\x.pdf", "evil.org=x.pdf"]),
        ("see..evil.io", ["evil.io"]),
        ("meet 2026-11-30 10:00 to 2026-12-01, 05-19-2024", []),
        ("e.g. this, i.e. U.S.A. v1.2, 3.14, 10:30, Hello: you", []),
    ],
)
def test_links_addresses_and_accounts_in_texts_are_found_whole(
    text: str, expected: list[str]
) -> None:
    assert list(embedded_values([text])) == expected


def test_embedded_values_are_of_texts_and_integers_and_each_once() -> None:
    values = [None, "a.com", "b.org a.com", 12345678, "acct 12345678"]
    assert list(embedded_values(values)) == ["a.com", "b.org", "12345678"]


@each_row(
    ("number", "expected"),
    [
        (4111111111111111, ["4111111111111111"]),
        (4111111111111111.0, ["4111111111111111"]),
        (-4111111111111111, ["-4111111111111111"]),
        (12345678, ["12345678"]),
        (10**5000, [hex(10**5000)]),
        (1234567, []),
        (52.52000659, []),
        (True, []),
        (float("inf"), []),
        (float("nan"), []),
    ],
)
def test_integers_with_the_digits_of_an_account_are_found(
    number: float, expected: list[str]
) -> None:
    assert list(embedded_values([number])) == expected


def test_after_many_embedded_values_the_text_is_one() -> None:
    text = " ".join(f"e{number}.com" for number in range(MAX_EMBEDDED + 5))
    found = list(embedded_values([text, "f.com"]))
    assert len(found) == MAX_EMBEDDED + 1
    assert found[-1] == text


@given(st.text(st.sampled_from("a1.@:/ -,(\u200b\uff41え한\u0301de89=+<\u3002"), max_size=40))
def test_any_text_can_be_searched(text: str) -> None:
    for found in embedded_values([text]):
        assert found
        assert normal_text(found)


HOSTILE = (
    *(
        "a",
        "a.",
        "@",
        "a@",
        "1 ",
        "1-",
        "de89 ",
        "de89 1 ",
        "://",
        "a:",
        "a,",
        "-",
        "a-",
        "=@",
        "x:/",
    ),
    *("2026-11-30 ", "1", "http", "a\u200b", "é ", "한a", "え.", "え", "\u0301\u0316", "e1.com "),
    *("a@b:", "a=b@c.de,", "\uff41", "1 2-", "+1 ", ".", "..a", "mailto:", "a" * 31 + "://"),
)


@each_row("part", HOSTILE)
def test_hostile_texts_are_searched_in_linear_time(part: str) -> None:
    """With quadratic time, each of them takes minutes; thread time ignores a busy machine."""
    text = part * (2**18 // len(part))
    start = time.thread_time()
    for _ in embedded_values([text]):
        pass
    assert normal_text(text) is not None
    assert time.thread_time() - start < 5


def test_keys_of_objects_are_yielded_on_request() -> None:
    value = {"a": ["x", {"b": 1, "c": True}], "d": None}
    assert list(scalars(value)) == ["x", 1]
    assert set(scalars(value, keys=True)) == {"a", "x", "b", 1, "c", "d"}


@each_row(
    ("path", "expected"),
    [
        ("id", [7]),
        ("orders[].id", ["a", "b"]),
        ("orders[].tags", ["x", "y", "z"]),
        ("orders[].tags[]", ["x", "y", "z"]),
        ("orders", [5]),
        ("orders[][].id", []),
        ("nothing.id", []),
        ("id.id", []),
        ("[].id", []),
        ("orders]", []),
    ],
)
def test_a_path_reads_values_of_a_result(path: str, expected: list[object]) -> None:
    result = {
        "id": 7,
        "orders": [{"id": "a", "tags": ["x", ["y"]]}, {"id": "b", "tags": ["z", {"k": "w"}]}, 5],
    }
    assert list(at_path(result, path)) == expected


def test_a_path_reads_items_of_a_list() -> None:
    assert list(at_path([{"name": "a"}, {"name": None}, {}], "[].name")) == ["a"]
