from mcp_tools_proxy.documents.importers.titles import own_title
from tests.support.tables import each_row


@each_row(
    "title",
    [
        "untitled",
        "Word Document",
        "(untitled)",
        "Untitled-1",
        "Untitled Document",
        "Unbenannt 2",
        "Sans titre",
        "无标题",
        "Microsoft Word - travel policy.doc",
        "Microsoft PowerPoint - Q3",
        "Excel - plan.xls",
        "PowerPoint Presentation",
        "Présentation PowerPoint",
        "PowerPoint-Präsentation",
        "Document1",
        "Dokument3",
        "Book1",
        "Slide 1",
        "Layout 1",
        "report_final.docx",
        "my report 2026.xlsx",
        r"C:\Users\eva\plan.pdf",
        "/home/eva/paper.dvi",
        "file:///C:/page.html",
        "Title",
        "[Title]",
        "Type the document title",
        "(anonymous)",
        "scan0001",
        "Scan_20260101",
        "SKM_C25826010112345",
        "CamScanner 03-12-2021 10.30",
        "---",
        "",
    ],
)
def test_defaults_of_programs_and_file_names_are_not_titles(title: str) -> None:
    assert own_title(title) == ""


@each_row(
    "title",
    [
        "Travel policy 2027",
        "1984",
        "Document management in hospitals",
        "Microsoft Word for beginners",
        "Presentation skills",
        "Untitled: a novel of loss",
        "A guide to scanning",
        "Slide rules",
        "Word of mouth - a history",
        "Book of Common Prayer",
        "Title IX guidance",
        "Working with README.md in practice",
        "Fax machines",
        "ISO 9001",
        "AB-123456",
        "Web 2.0",
        "Node.js",
        "NIST.SP.800-53",
        "Test plan",
    ],
)
def test_titles_of_authors_stay(title: str) -> None:
    assert own_title(title) == title
