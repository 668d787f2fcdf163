"""Equations of Word files as LaTeX: one that cannot be converted costs only itself."""

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.docx import import_docx
from mcp_tools_proxy.domain.document import Document
from tests.support.office_files import paragraph_xml, word_file
from tests.support.tables import each_row

ORIGIN = ImportOptions(tenant_id="t", doc_id="d", stem="formulas")


def m(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def of(tag: str, **parts: str) -> str:
    inner = "".join(f"<m:{name}>{content}</m:{name}>" for name, content in parts.items())
    return f"<m:{tag}>{inner}</m:{tag}>"


def imported(*content: str) -> Document:
    return import_docx(word_file(paragraph_xml(*content)), ORIGIN)


def equation(content: str) -> str:
    return imported(f"<m:oMath>{content}</m:oMath>").pages[0]


SUM = '<m:naryPr><m:chr m:val="∑"/></m:naryPr>'


@each_row(
    ("content", "text"),
    [
        (of("f", num=m("a+b"), den=m("2")), r"$\frac{a+b}{2}$"),
        (of("sSup", e=m("x"), sup=m("2")), "$x^{2}$"),
        (of("sSubSup", e=m("x"), sub=m("i"), sup=m("2")), "$x_{i}^{2}$"),
        (of("sPre", sub=m("6"), sup=m("14"), e=m("C")), "${}_{6}^{14}C$"),
        (of("rad", deg=m("3"), e=m("x")), r"$\sqrt[3]{x}$"),
        (of("rad", deg="", e=m("x")), r"$\sqrt{x}$"),
        (of("nary", sub=m("0"), sup=m("1"), e=m("x dx")), r"$\int_{0}^{1}x dx$"),
        (f"<m:nary>{SUM}<m:sub>{m('i')}</m:sub><m:e>{m('i')}</m:e></m:nary>", r"$\sum_{i}i$"),
        (of("d", e=m("a")), "$(a)$"),
        (of("func", fName=m("sin"), e=m("x")), r"$\sin x$"),
        (of("func", fName=of("limLow", e=m("lim"), lim=m("n→∞")), e=m("a")), r"$\lim_{n→∞}a$"),
        (of("acc", e=m("x")), r"$\hat{x}$"),
        (
            of("m", mr=f"<m:e>{m('a')}</m:e><m:e>{m('b')}</m:e>"),
            r"$\begin{matrix} a & b \end{matrix}$",
        ),
        (m("50% of {a}"), r"$50\% of \{a\}$"),
    ],
)
def test_structures_of_equations(content: str, text: str) -> None:
    assert equation(content) == text


def test_an_unknown_structure_leaves_its_letters_and_a_warning() -> None:
    document = imported(
        f"<m:oMath>{m('a')}</m:oMath>",
        " and ",
        f"<m:oMath><m:unheard>{m('b')}</m:unheard></m:oMath>",
    )
    assert document.pages == ("$a$ and $b$",)
    assert [(it.code, it.message) for it in document.warnings] == [
        ("lost_equation", "1 equation could not be converted completely")
    ]


def test_an_equation_that_is_a_picture_is_a_warning() -> None:
    picture = '<w:r><w:object><o:OLEObject ProgID="Equation.3"/></w:object></w:r>'
    document = imported("See ", picture, " here.")
    assert document.pages == ("See here.",)
    assert [it.code for it in document.warnings] == ["lost_equation"]


def test_equations_on_their_own_lines_are_displayed() -> None:
    lines = "".join(f"<m:oMath>{m(it)}</m:oMath>" for it in ("a=b", "c=d"))
    assert imported(f"<m:oMathPara>{lines}</m:oMathPara>").pages == ("$$a=b$$\n$$c=d$$",)


def test_deleted_parts_of_an_equation_are_left_out() -> None:
    deleted = f'<w:del w:id="1">{m("b")}</w:del><w:ins w:id="2">{m("c")}</w:ins>'
    assert equation(m("a") + deleted) == "$ac$"
