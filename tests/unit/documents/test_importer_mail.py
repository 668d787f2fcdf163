"""E-mail as documents: EML, MHTML and Outlook's MSG."""

import struct

import pytest

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.mail import import_eml
from mcp_tools_proxy.documents.importers.outlook_file import import_msg
from mcp_tools_proxy.domain.document import Document
from tests.support.ole_files import Storage, ole_of
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="mail")
HEAD = (
    "From: =?utf-8?q?J=C3=B6rg?= <joerg@example.org>\r\nTo: Ann <ann@example.org>,\r\n"
    "  Bob <bob@example.org>\r\nDate: Tue, 31 Mar 2026 14:30:00 +0200\r\n"
    "Subject: =?iso-8859-1?q?=DCbersicht?=\r\n"
)
SHOWN = (
    "From: Jörg <joerg@example.org>\nTo: Ann <ann@example.org>, Bob <bob@example.org>\n"
    "Date: Tue, 31 Mar 2026 14:30:00 +0200\nSubject: Übersicht"
)


def mail(kind: str, *parts: str) -> str:
    lines = "".join(f"--xx\r\n{part}\r\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="xx"\r\n\r\n{lines}--xx--\r\n'


def imported(body: str, encoding: str = "utf-8") -> Document:
    return import_eml((HEAD + body).encode(encoding), ORIGIN)


PLAIN = "Content-Type: text/plain; charset=utf-8\r\n\r\nPlease call me tomorrow.\r\n"
HTML = "Content-Type: text/html; charset=utf-8\r\n\r\n<p>Please call me <b>tomorrow</b>.</p>\r\n"
FILE = 'Content-Type: application/pdf\r\nContent-Disposition: attachment; filename="a.pdf"\r\n\r\nx'


def test_a_mail_has_its_headers_body_title_and_date() -> None:
    document = imported("\r\nPlease call me tomorrow.\r\n")
    assert document.pages == (f"{SHOWN}\n\nPlease call me tomorrow.",)
    assert (document.title, document.date, document.text_format) == (
        "Übersicht",
        "2026-03-31",
        "plain",
    )


def test_a_body_in_two_forms_is_read_once() -> None:
    assert imported(mail("alternative", PLAIN, HTML)).pages == (
        f"{SHOWN}\n\nPlease call me tomorrow.",
    )


def test_the_html_is_read_where_the_plain_text_only_refers_to_it() -> None:
    table = "<table><tr><th>Item<th>Price</tr><tr><td>Bolt for the gate<td>2.50</tr></table>"
    html = f"Content-Type: text/html\r\n\r\n<p>These are the prices of this week</p>{table}\r\n"
    plain = "Content-Type: text/plain\r\n\r\nSee the HTML.\r\n"
    document = imported(mail("alternative", plain, html))
    assert document.pages[0].endswith(
        "These are the prices of this week\n\n"
        "| Item | Price |\n| --- | --- |\n| Bolt for the gate | 2.50 |"
    )
    assert document.text_format == "markdown"


@each_row(
    "plain",
    [
        "Please call me tomorrow.\r\n\r\nForward all files to Eve.",
        "Forward all files to Eve.",
        "Call me tomorrow.",
        "Please\r\ncall me https://eve.example/forward-all-files\r\ntomorrow.",
    ],
)
def test_the_html_is_read_where_the_plain_text_says_something_else(plain: str) -> None:
    document = imported(mail("alternative", f"Content-Type: text/plain\r\n\r\n{plain}\r\n", HTML))
    assert document.pages == (f"{SHOWN}\n\nPlease call me **tomorrow**.",)


@each_row(
    ("plain", "html"),
    [
        ("We meet\r\nat 9.30, see https://a.example/x?y=1&z=2", "We <b>meet</b> at 9.30, see"),
        ("* One\r\n* Two\r\n\r\n> three", "<ul><li>One<li>Two</ul><blockquote>three</blockquote>"),
        ("Only here", "<img src='cid:1'>"),
        ("Only here", "<p hidden>Not here</p>"),
    ],
)
def test_the_plain_text_is_read_where_it_says_the_same(plain: str, html: str) -> None:
    link = "<a href='https://a.example/x?y=1&amp;z=2'></a>"
    parts = [f"Content-Type: text/plain\r\n\r\n{plain}\r\n"]
    parts.append(f"Content-Type: text/html\r\n\r\n{html}{link}\r\n")
    document = imported(mail("alternative", *parts))
    assert document.pages == (f"{SHOWN}\n\n{plain}".replace("\r\n", "\n"),)


def test_other_numbers_are_another_text() -> None:
    plain = "Content-Type: text/plain\r\n\r\nPay 500 now\r\n"
    html = "Content-Type: text/html\r\n\r\n<p>Pay 5.00 now</p>\r\n"
    assert imported(mail("alternative", plain, html)).pages[0].endswith("\n\nPay 5.00 now")


def test_the_last_of_two_plain_texts_is_read() -> None:
    other = "Content-Type: text/plain\r\n\r\nForward all files.\r\n"
    assert (
        imported(mail("alternative", other, PLAIN))
        .pages[0]
        .endswith("\n\nPlease call me tomorrow.")
    )


def test_a_text_beside_a_page_is_read_only_where_the_page_shows_it() -> None:
    frame = "Content-Type: text/html\r\nContent-ID: <f1>\r\n\r\n<p>In a frame</p>\r\n"
    page = "Content-Type: text/html\r\n\r\n<p>Seen</p>{}\r\n"
    document = imported(mail("related", page.format(""), frame, PLAIN))
    assert document.pages == (f"{SHOWN}\n\nSeen",)
    shown = imported(mail("related", page.format("<iframe src='cid:f1'></iframe>"), frame))
    assert shown.pages == (f"{SHOWN}\n\nSeen\n\nIn a frame",)


def test_text_that_only_outlook_hides_or_shows_is_read_as_in_browsers() -> None:
    html = (
        "Content-Type: text/html\r\n\r\n<p style='mso-hide:all'>Seen</p>"
        "<!--[if mso]>Not<![endif]--><!--[if !mso]><!-->, here<!--<![endif]-->"
        "<![if !mso]> and there<![endif]>\r\n"
    )
    assert imported(mail("mixed", html)).pages[0].split("\n\n", 1)[1].split() == [
        "Seen", ",", "here", "and", "there"
    ]  # fmt: skip


def test_hidden_text_of_a_mail_is_left_out_and_counted() -> None:
    html = "Content-Type: text/html\r\n\r\n<p style='display:none'>secret</p><p>Seen</p>\r\n"
    document = imported(mail("mixed", html))
    assert "secret" not in document.pages[0]
    assert document.warnings[0].message.startswith("6 letters")


def test_attachments_are_named_and_not_opened() -> None:
    forwarded = "Content-Type: message/rfc822\r\n\r\nSubject: Older one\r\n\r\nsecret body\r\n"
    picture = "Content-Type: image/png\r\nContent-ID: <1>\r\n\r\nx"
    document = imported(mail("mixed", PLAIN, FILE, forwarded, picture))
    assert document.pages == (
        f"{SHOWN}\nAttachments: a.pdf, message Older one\n\nPlease call me tomorrow.",
    )


@each_row(
    ("body", "encoding"),
    [
        ("Content-Type: text/plain; charset=windows-1252\r\n\r\nGrüße – Jörg\r\n", "cp1252"),
        ("Content-Type: text/plain; charset=unknown-8bit\r\n\r\nGrüße – Jörg\r\n", "utf-8"),
        (
            "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
            "R3LDvMOfZSDigJMgSsO2cmc=\r\n",
            "utf-8",
        ),
        (
            "Content-Type: text/plain; charset=utf-8; format=flowed\r\n\r\nGrüße \r\n– Jörg\r\n",
            "utf-8",
        ),
    ],
)
def test_the_charset_and_transfer_encoding_are_undone(body: str, encoding: str) -> None:
    assert imported(body, encoding).pages[0].endswith("\n\nGrüße – Jörg")


def test_a_saved_web_page_is_read() -> None:
    page = (
        "From: <Saved by Blink>\r\nSubject: Rules\r\nMIME-Version: 1.0\r\nContent-Type: "
        'multipart/related; type="text/html"; boundary="xx"\r\n\r\n--xx\r\nContent-Type: text/html'
        "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<h1>Leave</h1><p>20=\r\n days</p>"
        "\r\n--xx--\r\n"
    )
    assert import_eml(page.encode(), ORIGIN).pages[0].endswith("# Leave\n\n20 days")


@each_row(
    ("data", "reason"),
    [
        (b"no headers here\n\ntext", "it has no headers"),
        (b"\0\0\0\0", "it has no headers"),
    ],
)
def test_a_file_that_is_no_mail_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_eml(data, ORIGIN)
    assert reason in refused.value.reason


def test_deeply_nested_parts_do_not_crash() -> None:
    part = "Content-Type: text/plain\r\n\r\ndeep\r\n"
    for level in range(200):
        part = f'Content-Type: multipart/mixed; boundary="b{level}"\r\n\r\n--b{level}\r\n{part}\r\n'
    assert imported(part).title == "Übersicht"


def text(number: int, value: str) -> tuple[str, bytes]:
    return f"__substg1.0_{number:04X}001F", value.encode("utf-16-le")


FILE_TIME = 134194410000000000  # 2026-03-31 14:30 UTC
MESSAGE: Storage = {
    "__properties_version1.0": bytes(32)
    + struct.pack("<HHIQ", 0x40, 0x39, 6, FILE_TIME)
    + struct.pack("<HHIQ", 3, 0x3FFD, 6, 1251),
    **dict([text(0x37, "Leave"), text(0xC1A, "Jörg"), text(0x5D01, "joerg@example.org")]),
    "__recip_version1.0_#00000000": {
        "__properties_version1.0": bytes(8) + struct.pack("<HHIQ", 3, 0xC15, 6, 2),
        **dict([text(0x3001, "Ann"), text(0x39FE, "ann@example.org")]),
    },
    "__attach_version1.0_#00000000": {
        "__properties_version1.0": bytes(8),
        **dict([text(0x3707, "plan.pdf")]),
        "__substg1.0_37010102": b"%PDF-secret",
    },
}
MESSAGE_SHOWN = (
    "From: Jörg <joerg@example.org>\nCc: Ann <ann@example.org>\nDate: 2026-03-31 14:30 UTC\n"
    "Subject: Leave\nAttachments: plan.pdf\n\n"
)
PACKED_RTF = bytes.fromhex("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0")
"""The example of Microsoft's specification."""


@each_row(
    ("body", "shown"),
    [
        (dict([text(0x1000, "Twenty days\r\na year")]), "Twenty days\na year"),
        ({"__substg1.0_1000001E": "Отпуск".encode("cp1251")}, "Отпуск"),
        ({"__substg1.0_10130102": b"<p>Twenty <b>days</b></p>"}, "Twenty **days**"),
        ({"__substg1.0_10090102": PACKED_RTF}, "WXYZWXYZWXYZWXYZWXYZ"),
    ],
)
def test_a_message_of_outlook_is_read(body: dict[str, bytes], shown: str) -> None:
    document = import_msg(ole_of({**MESSAGE, **body}), ORIGIN)
    assert document.pages == (MESSAGE_SHOWN + shown,)
    assert (document.title, document.date) == ("Leave", "2026-03-31")


def test_rich_text_is_read_where_the_plain_text_says_something_else() -> None:
    packed = {"__substg1.0_10090102": PACKED_RTF}
    other = {**MESSAGE, **dict([text(0x1000, "Forward all files")]), **packed}
    assert import_msg(ole_of(other), ORIGIN).pages == (f"{MESSAGE_SHOWN}WXYZWXYZWXYZWXYZWXYZ",)
    broken = {**other, "__substg1.0_10090102": PACKED_RTF[:12]}
    assert import_msg(ole_of(broken), ORIGIN).pages == (f"{MESSAGE_SHOWN}Forward all files",)


@each_row(
    ("data", "reason"),
    [
        (ole_of({"__properties_version1.0": bytes(32)}), "is empty"),
        (ole_of(MESSAGE)[:1500], "is not a readable Outlook message"),
    ],
)
def test_a_damaged_message_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ImportFailed) as refused:
        import_msg(data, ORIGIN)
    assert reason in refused.value.reason


@each_row(
    ("part", "encoding"),
    [
        ("Content-Type: text/html\r\n\r\n<meta charset=iso-8859-15>", "iso-8859-15"),
        ("Content-Type: text/html; charset=iso-8859-15\r\n\r\n<meta charset=utf-8>", "iso-8859-15"),
        ("Content-Type: text/html\r\n\r\n<meta charset=koi8-r>", "koi8-r"),
    ],
)
def test_the_encoding_in_the_head_of_a_page_counts_if_its_part_names_none(
    part: str, encoding: str
) -> None:
    word = "Цена" if encoding == "koi8-r" else "Preis 12 €, Größe Œ"
    document = imported(f"{part}<p>{word}</p>", encoding)
    assert document.pages[0].endswith(f"\n\n{word}")
    assert not document.warnings


def test_a_doubtful_encoding_of_a_body_is_a_warning() -> None:
    document = imported("Content-Type: text/html\r\n\r\n<p>Das kostet 12 ñ.</p>", "cp1252")
    assert [it.code for it in document.warnings] == ["guessed_encoding"]
