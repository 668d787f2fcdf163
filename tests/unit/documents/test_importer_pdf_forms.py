"""Form fields, text boxes and notes of PDF files (contract §5)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, pkcs7
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions, WarningCode
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.domain.document import Document
from tests.support.document_samples import sample
from tests.support.raw_pdfs import FIRST_OBJECT, raw_pdf, stream, text_at
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="form")


def widget(rect: str, fields: str, *, flags: int = 4) -> str:
    return f"<< /Type /Annot /Subtype /Widget /F {flags} /Rect [{rect}] {fields} >>"


def typed(rect: str, value: str, *, flags: int = 4, name: str = "a") -> str:
    fields = f"/FT /Tx /T ({name}) /V ({value}) /DA (/F1 12 Tf)"
    return widget(rect, fields, flags=flags)


def checked(rect: str, state: str = "Yes") -> str:
    on = "/AP << /N << /Yes 6 0 R /Off 6 0 R >> >>"
    return widget(rect, f"/FT /Btn /T (b{rect}) /V /{state} /AS /{state} {on}")


EMPTY = stream("", "/Type /XObject /Subtype /Form /BBox [0 0 9 9]")


def form_of(content: str, *fields: str, page: str = "/MediaBox [0 0 600 800]") -> bytes:
    """Return a PDF with fields; object 6 is an empty appearance."""
    numbers = range(FIRST_OBJECT + 1, FIRST_OBJECT + 1 + len(fields))
    listed = " ".join(f"{number} 0 R" for number in numbers)
    return raw_pdf(
        content,
        EMPTY,
        *fields,
        annotations=numbers,
        catalog=f"/AcroForm << /Fields [{listed}] /DR << /Font << /F1 5 0 R >> >> >>",
        page=page,
    )


def text_of(data: bytes, options: ImportOptions = ORIGIN) -> str:
    return "\n".join(import_pdf(data, options).pages)


def hidden_letters(document: Document) -> str:
    (found,) = [it for it in document.warnings if it.code == WarningCode.HIDDEN_TEXT]
    return found.message


def test_the_values_of_a_form_are_beside_their_labels() -> None:
    assert text_of(sample("01-form-values.pdf")).splitlines() == [
        "Application for leave",
        "Surname: Nowakowska",
        "Reason: moving house",
        "Approved: [x]",
    ]


LINES: dict[tuple[float, float], str] = {
    (50, 700): "Name:",
    (300, 700): "Date:",
    (50, 660): "Remarks",
    (50, 500): "End.",
}


def test_fields_on_one_line_follow_their_own_labels() -> None:
    data = form_of(
        text_at(LINES),
        typed("340 696 420 714", "3 May", name="date"),
        typed("90 696 200 714", "Jan \\(J.\\)", name="name"),
        typed("50 600 400 650", "one\\rtwo", name="remarks"),
    )
    assert text_of(data) == "Name: Jan (J.) Date: 3 May\nRemarks\none\ntwo\nEnd."


def test_fields_within_one_line_of_text_follow_their_words() -> None:
    line = "Name: ____________ Date: ____________ Place:"
    data = form_of(
        text_at({(50, 700): line, (50, 650): "End."}),
        typed("85 696 160 714", "Jan", name="name"),
        typed("198 696 270 714", "3 May", name="date"),
    )
    assert text_of(data) == "Name: Jan ____________ Date: 3 May ____________ Place:\nEnd."


def test_labels_in_a_form_object_are_found() -> None:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 600 800]"
    shown = stream(text_at(LINES), f"{entries} /Resources << /Font << /F1 5 0 R >> >>")
    data = raw_pdf(
        "/X1 Do",
        shown,
        typed("90 696 200 714", "Jan"),
        annotations=[7],
        catalog="/AcroForm << /Fields [7 0 R] >>",
        resources="/Font << /F1 5 0 R >> /XObject << /X1 6 0 R >>",
    )
    assert "Name: Jan" in text_of(data)


FORM: dict[tuple[float, float], str] = {
    (50, 700): "Name:",
    (50, 680): "Town:",
    (300, 680): "Code:",
    (50, 660): "Pay:",
    (160, 660): "monthly",
    (260, 660): "yearly",
    (50, 640): "Fee:",
    (205, 640): "EUR",
    (50, 620): "First name",
    (300, 620): "Last name",
    (160, 580): "I agree.",
    (160, 560): "Send me news.",
    (50, 540): "This form ends here.",
}
FIELDS = (
    typed("100 697 280 712", "Ann", name="n"),
    typed("100 677 280 692", "Ulm", name="t"),
    typed("350 677 480 692", "89073", name="c"),
    checked("145 660 155 670", "Off"),
    checked("245 660 255 670"),
    typed("100 637 200 652", "45", name="f"),
    typed("50 600 280 616", "Maria", name="m"),
    typed("300 600 480 616", "Berg", name="b"),
    checked("145 580 155 590"),
    checked("145 560 155 570", "Off"),
)


@given(st.permutations(list(FORM.items())), st.permutations(FIELDS))
def test_fields_are_beside_their_labels_in_any_order_of_drawing(
    drawn: list[tuple[tuple[float, float], str]], fields: list[str]
) -> None:
    text = text_of(form_of(text_at(dict(drawn)), *fields))

    lines = text.splitlines()
    assert {
        "Name: Ann",
        "Pay: [ ] monthly [x] yearly",
        "Fee: 45 EUR",
        "[x] I agree.",
        "[ ] Send me news.",
        "This form ends here.",
    } <= set(lines)
    for pair in ("Town: Ulm", "Code: 89073", "First name\nMaria", "Last name\nBerg"):
        assert pair in text


def test_the_shown_state_of_a_radio_button_counts() -> None:
    kids = (
        widget("100 700 110 710", "/Parent 9 0 R /AS /Off /AP << /N << /1 6 0 R /Off 6 0 R >> >>"),
        widget("200 700 210 710", "/Parent 9 0 R /AS /2 /AP << /N << /2 6 0 R /Off 6 0 R >> >>"),
    )
    group = "<< /FT /Btn /Ff 49152 /T (g) /V /2 /Opt [(a) (b)] /Kids [7 0 R 8 0 R] >>"
    content = text_at({(50, 700): "Pay:", (115, 700): "monthly", (215, 700): "yearly"})

    assert text_of(form_of(content, *kids, group)) == "Pay: [ ] monthly [x] yearly"


@each_row("turned", [90, 180, 270])
def test_labels_are_found_on_rotated_pages(turned: int) -> None:
    matrix, rect = {
        90: ("0 1 -1 0 300 50", "286 90 304 200"),
        180: ("-1 0 0 -1 550 300", "400 286 510 304"),
        270: ("0 -1 1 0 300 750", "296 600 314 710"),
    }[turned]
    data = form_of(
        f"BT /F1 12 Tf {matrix} Tm (Name:) Tj ET BT /F1 12 Tf 0 -1 1 0 20 20 Tm (x) Tj ET",
        typed(rect, "Jan"),
        page=f"/MediaBox [0 0 600 800] /Rotate {turned}",
    )
    assert "Name: Jan" in text_of(data)


@each_row(("state", "text"), [("Yes", "[x] Paid\nName: Jan"), ("Off", "[ ] Paid\nName: Jan")])
def test_a_check_box_is_beside_the_nearer_label(state: str, text: str) -> None:
    data = form_of(
        text_at({(80, 700): "Paid", (50, 650): "Name:"}),
        checked("60 698 74 712", state),
        typed("90 646 200 664", "Jan"),
    )
    assert text_of(data) == text


def test_fields_in_a_table_are_its_cells() -> None:
    columns, rows = (50, 150, 250, 350), (700, 680, 660, 640)
    lines = [f"{x} 640 m {x} 700 l S" for x in columns] + [f"50 {y} m 350 {y} l S" for y in rows]
    words: dict[tuple[float, float], str] = {(55, 685): "Plan", (155, 685): "Q1", (255, 685): "Q2"}
    words |= {(55, 665): "North", (55, 645): "South"}
    data = form_of(
        " ".join((*lines, text_at(words, size=10))),
        typed("152 662 248 678", "10", name="n1"),
        typed("252 642 348 658", "22", name="s2"),
    )
    assert text_of(data).splitlines()[2:] == ["| North | 10 |  |", "| South |  | 22 |"]


def test_a_line_with_a_field_is_not_a_heading() -> None:
    lines = [
        f"BT /F1 10 Tf 50 {600 - 14 * n} Td (Body of line {n} with words.) Tj ET" for n in range(20)
    ]
    data = form_of(
        "BT /F1 20 Tf 50 700 Td (Application) Tj ET BT /F1 20 Tf 50 650 Td (Reason) Tj ET "
        + " ".join(lines),
        typed("170 696 300 714", "moving"),
    )
    document = import_pdf(data, ORIGIN)
    assert "Application moving" in document.pages[0]
    assert not any("zqj" in it.title for it in document.sections.values())


def test_the_labels_of_chosen_options_are_shown() -> None:
    options = "/Opt [[(PL) (Poland)] [(DE) (Germany)]]"
    data = form_of(
        text_at({(50, 700): "Country:"}),
        widget("110 696 200 714", f"/FT /Ch /Ff 131072 /T (c) /V (DE) {options} /DA (/F1 12 Tf)"),
    )
    assert text_of(data) == "Country: Germany"


def test_a_value_with_an_empty_appearance_is_shown() -> None:
    entries = "/FT /Tx /T (a) /V (Jan) /DA (/F1 12 Tf 0 g) /AP << /N 6 0 R >>"
    data = form_of(text_at({(50, 700): "Name:"}), widget("90 696 200 714", entries))
    assert text_of(data) == "Name: Jan"


def test_a_value_without_a_font_is_shown() -> None:
    field = widget("90 696 200 714", "/FT /Tx /T (a) /V (Jan)")
    data = raw_pdf(
        text_at({(50, 700): "Name:"}),
        field,
        annotations=[6],
        catalog="/AcroForm << /Fields [6 0 R] >>",
    )
    assert text_of(data) == "Name: Jan"


def test_a_field_without_a_visible_label_shows_its_name() -> None:
    data = form_of("", widget("50 600 200 620", "/FT /Tx /T (a) /TU (Surname) /V (Nowak)"))
    assert text_of(data) == "Surname: Nowak"


def test_the_signer_is_shown_in_the_signature_field() -> None:
    value = (
        "<< /Type /Sig /Contents <0011> /ByteRange [0 AAAAAA BBBBBB 100] /Name (Jan \\\\(J\\\\)) >>"
    )
    data = form_of(
        text_at({(50, 700): "Signature:"}),
        widget("120 696 300 714", "/FT /Sig /T (s) /V 8 0 R"),
        value.replace("\\\\", "\\"),
    )
    start = data.index(b"<0011>")
    data = data.replace(b"AAAAAA", b"%06d" % start).replace(b"BBBBBB", b"%06d" % (start + 6))
    assert text_of(data) == "Signature: [Signed by Jan (J)]"


def signed_by(name: str) -> bytes:
    """Return a signature of PKCS #7 with a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Authority")]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    builder = pkcs7.PKCS7SignatureBuilder().set_data(b"text")
    return builder.add_signer(certificate, key, hashes.SHA256()).sign(Encoding.DER, [])


@each_row(
    ("contents", "text"),
    [
        (signed_by("Anna Nowak").hex() + "00" * 50, "Signature: [Signed by Anna Nowak]"),
        ("00" * 50, "Signature:"),
        ("3082ffff", "Signature:"),
        ("30", "Signature:"),
        ("", "Signature:"),
    ],
)
def test_without_a_stated_name_the_certificate_names_the_signer(contents: str, text: str) -> None:
    data = form_of(
        text_at({(50, 700): "Signature:"}),
        widget("120 696 300 714", "/FT /Sig /T (s) /V 8 0 R"),
        f"<< /Type /Sig /Contents <{contents}> /ByteRange [0 1 2 3] >>",
    )
    assert text_of(data) == text


@given(
    rect=st.lists(st.integers(-100, 900), min_size=4, max_size=4),
    flags=st.integers(0, 1023),
    value=st.text("ab (\\)zqj01\n", max_size=20),
    turned=st.sampled_from([0, 90, 180, 270]),
)
def test_any_field_is_shown_or_hidden(rect: list[int], flags: int, value: str, turned: int) -> None:
    escaped = value.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    data = form_of(
        text_at({(50, 700): "Name: and Date:", (50, 650): "End."}),
        typed(" ".join(map(str, rect)), escaped, flags=flags),
        page=f"/MediaBox [0 0 600 800] /Rotate {turned}",
    )
    text = "".join(text_of(data).split())
    assert all(word in text for word in ("Name:", "Date:", "End."))
    assert len(text) - len("Name:andDate:End.") in {0, len("".join(value.split()))}


@each_row("flags", [2, 32, 34])
def test_hidden_fields_are_left_out_and_counted(flags: int) -> None:
    data = form_of(
        text_at({(50, 700): "Name:"}),
        typed("90 696 200 714", "obey me", flags=flags),
    )
    document = import_pdf(data, ORIGIN)
    assert document.pages == ("Name:",)
    assert hidden_letters(document) == "6 letters of hidden text were left out"


@each_row("rect", ["700 696 800 714", "90 -40 200 -20", "90 696 90 696"])
def test_fields_off_the_page_and_without_size_are_hidden(rect: str) -> None:
    document = import_pdf(form_of(text_at({(50, 700): "Name:"}), typed(rect, "obey")), ORIGIN)
    assert (document.pages, len(document.warnings)) == (("Name:",), 1)


def test_a_password_is_hidden() -> None:
    field = "/FT /Tx /Ff 8192 /T (p) /V (secret) /DA (/F1 12 Tf)"
    data = form_of(text_at({(50, 700): "Password:"}), widget("120 696 200 714", field))
    assert text_of(data) == "Password:"


def test_text_boxes_and_notes_are_text_of_the_page() -> None:
    assert text_of(sample("25-freetext-annotation.pdf")).splitlines() == [
        "Draft of the budget.",
        "Approved by the board on 3 May.",
        "[Note: Ask Eva about line 4.]",
    ]


def test_a_text_box_may_have_only_rich_text() -> None:
    rich = "<body><p>No <b>bikes</b> &amp; dogs</p></body>"
    box = f"<< /Type /Annot /Subtype /FreeText /Rect [50 590 300 612] /RC ({rich}) >>"
    assert text_of(form_of(text_at({(50, 700): "Rules"}), box)) == "Rules\nNo bikes & dogs"


NOTE = (
    "<< /Type /Annot /Subtype /{} /Rect [50 690 100 712] /T (Eva) /Contents (Is it\\rtrue?) {} >>"
)


@each_row("kind", ["Text", "Highlight", "StrikeOut", "Square", "Ink", "Caret"])
def test_notes_are_marked_with_their_author_and_can_be_left_out(kind: str) -> None:
    data = raw_pdf(text_at({(50, 700): "Sales grew."}), NOTE.format(kind, ""), annotations=[6])
    assert text_of(data) == "Sales grew.\n[Note by Eva: Is it true?]"
    assert text_of(data, replace(ORIGIN, with_notes=False)) == "Sales grew."


@each_row("entries", ["/F 2", "/F 32"])
def test_hidden_notes_are_left_out(entries: str) -> None:
    data = raw_pdf(text_at({(50, 700): "Sales."}), NOTE.format("Text", entries), annotations=[6])
    assert text_of(data) == "Sales."


def test_the_state_of_a_note_is_not_a_note() -> None:
    state = NOTE.format("Text", "/State (Accepted) /StateModel (Review)")
    data = raw_pdf(text_at({(50, 700): "Sales."}), state, annotations=[6])
    assert text_of(data) == "Sales."


def test_an_xfa_form_is_refused() -> None:
    with pytest.raises(ImportFailed, match="is an XFA form"):
        import_pdf(sample("18-xfa.pdf"), ORIGIN)


def test_an_xfa_form_with_pages_is_read() -> None:
    data = form_of(text_at({(50, 700): "Name:"}), typed("90 696 200 714", "Jan"))
    with_xfa = data.replace(b"/AcroForm <<", b"/AcroForm << /XFA []")
    assert text_of(with_xfa) == "Name: Jan"


def shown(content: str) -> str:
    entries = "/Type /XObject /Subtype /Form /BBox [0 0 200 20]"
    return stream(content, f"{entries} /Resources << /Font << /F1 5 0 R >> >>")


def with_appearance(annotation: str, appearance: str, entries: str = "") -> bytes:
    """Return a PDF with a field or text box at "Amount:" and its appearance, a stream."""
    return raw_pdf(
        text_at({(50, 700): "Amount:"}),
        f"<< /Type /Annot /F 4 /Rect [110 695 310 715] /AP << /N 7 0 R >> {annotation} >>",
        appearance,
        annotations=[6],
        catalog=f"/AcroForm << /Fields [6 0 R] /DR << /Font << /F1 5 0 R >> >> {entries} >>",
    )


PAY = shown("BT /F1 12 Tf 2 5 Td (Pay 100 EUR) Tj ET")
FIELD = "/Subtype /Widget /FT /Tx /T (a) /DA (/F1 12 Tf 0 g) /V"


@each_row(
    "annotation",
    [
        f"{FIELD} (Pay 900 EUR)",
        f"{FIELD} (Pay 100 EUR or obey me)",
        "/Subtype /FreeText /DA (/F1 12 Tf 0 g) /Contents (Pay 900 EUR)",
        "/Subtype /Widget /FT /Ch /T (a) /Ff 131072 /Opt [(900)] /V (900) /DA (/F1 12 Tf 0 g)",
    ],
)
def test_the_appearance_of_a_field_or_text_box_wins_over_its_value(annotation: str) -> None:
    document = import_pdf(with_appearance(annotation, PAY), ORIGIN)
    assert document.pages == ("Amount: Pay 100 EUR",)
    assert hidden_letters(document)


@each_row(
    ("value", "appearance", "entries", "text"),
    [
        ("Pay 900 EUR", PAY, "/NeedAppearances true", "Pay 900 EUR"),
        ("Pay 900 EUR", shown(""), "", "Pay 900 EUR"),
        ("pay 100\\040EUR", PAY, "", "pay 100 EUR"),
        ("100", PAY, "", "Pay 100 EUR"),
        (
            "one two three four five six seven eight nine",
            shown("BT /F1 12 Tf 2 5 Td (one two three four five six seven eight nine) Tj ET"),
            "",
            "one two three four five six seven eight nine",
        ),
    ],
)
def test_a_value_with_an_old_empty_equal_longer_or_cut_appearance_is_not_hidden(
    value: str, appearance: str, entries: str, text: str
) -> None:
    data = with_appearance(f"{FIELD} ({value})", appearance, entries)
    document = import_pdf(data, ORIGIN)
    assert document.pages == (f"Amount: {text}",)
    assert not document.warnings


def test_of_a_list_only_the_chosen_options_that_are_drawn_are_read() -> None:
    options = "/Subtype /Widget /FT /Ch /T (a) /Ff 2097152 /DA (/F1 12 Tf 0 g)"
    data = with_appearance(
        f"{options} /Opt [(Paris) (Rome) (obey me)] /V [(Rome) (obey me)]",
        shown("BT /F1 8 Tf 2 11 Td (Paris) Tj 0 -9 Td (Rome) Tj ET"),
    )
    assert text_of(data) == "Amount: Rome"


def test_many_boxes_around_one_appearance_do_not_multiply_its_text() -> None:
    box = "/Type /Annot /Subtype /FreeText /F 4 /Rect [0 0 600 800] /DA (/F1 12 Tf 0 g)"
    boxes = [f"<< {box} /Contents (obey me {it}) /AP << /N 6 0 R >> >>" for it in range(300)]
    data = raw_pdf("", shown("BT /F1 12 Tf 2 5 Td (Pay) Tj ET"), *boxes, annotations=range(7, 307))
    assert 1 <= text_of(data).count("Pay") <= 2 * len(boxes)
    assert "obey" not in text_of(data)
