"""Images of pages with fields and annotations, compared by their pixels."""

from io import BytesIO

from fpdf import FPDF
from PIL import Image

from mcp_tools_proxy.documents.render_worker import render_page
from tests.support.document_samples import sample
from tests.support.raw_pdfs import raw_pdf


def dark_pixels(pdf: bytes, box: tuple[float, float, float, float]) -> int:
    """Count the dark pixels of an A4 page between left, bottom, right and top, in points."""
    _, drawn, width, height = render_page(pdf, 1, max_bytes=1_000_000)
    with Image.open(BytesIO(drawn)) as image:
        scale = width / 595
        left, bottom, right, top = (it * scale for it in box)
        part = image.convert("L").crop(
            (round(left), round(height - top), round(right), round(height - bottom))
        )
    return sum(part.histogram()[:80])


def test_the_values_of_fields_are_drawn() -> None:
    pdf = sample("01-form-values.pdf")
    assert dark_pixels(pdf, (153, 748, 347, 762)) > 200
    assert dark_pixels(pdf, (153, 718, 347, 732)) > 200
    assert dark_pixels(pdf, (153, 688, 167, 702)) > 50


FIELD = (
    "<< /Type /Annot /Subtype /Widget /FT /Tx /T (a) /V (Nowakowska) /F {} /DA (/F1 12 Tf 0 g) "
    "/Rect [100 600 300 620] >>"
)


def form_of(flags: int) -> bytes:
    form = "/AcroForm << /Fields [6 0 R] /NeedAppearances true /DR << /Font << /F1 5 0 R >> >> >>"
    size = "/MediaBox [0 0 595 842]"
    return raw_pdf("", FIELD.format(flags), annotations=[6], catalog=form, page=size)


def test_a_value_without_an_appearance_is_drawn() -> None:
    assert dark_pixels(form_of(4), (100, 600, 300, 620)) > 200


def test_a_hidden_field_is_not_drawn() -> None:
    assert dark_pixels(form_of(2), (5, 5, 590, 835)) == 0


def test_the_text_of_a_text_box_is_drawn() -> None:
    pdf = sample("25-freetext-annotation.pdf")
    assert dark_pixels(pdf, (60, 602, 300, 638)) > 200


def test_a_long_text_is_drawn_at_its_box() -> None:
    box = (
        "<< /Type /Annot /Subtype /FreeText /Rect [100 500 300 540] /DA (/Helv 14 Tf) "
        f"/Contents ({'many words ' * 20}) >>"
    )
    pdf = raw_pdf("", box, annotations=[6], page="/MediaBox [0 0 595 842]")
    inside = dark_pixels(pdf, (95, 490, 315, 545))
    assert inside > 200
    assert dark_pixels(pdf, (5, 5, 590, 835)) == inside


def test_a_page_of_a_file_with_an_empty_user_password_is_drawn() -> None:
    pdf = FPDF(unit="pt", format=(595, 842))
    pdf.set_font("helvetica", size=30)
    pdf.add_page()
    pdf.text(50, 100, "Text")
    pdf.set_encryption(owner_password="owner")
    assert dark_pixels(bytes(pdf.output()), (0, 700, 595, 842)) > 200
