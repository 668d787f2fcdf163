"""Front matter of Markdown files: YAML, TOML and JSON (contract §5)."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import FileFacts, ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.front_matter import split_front_matter
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.domain.document import Document
from tests.support.tables import each_row

FILES = Path(__file__).parents[2] / "data/documents"
"""Files made by hand, without content of others."""

BODY = "# Intro\n\nText.\n"


def imported(text: str | bytes, language: str | None = None) -> Document:
    data = text if isinstance(text, bytes) else text.encode()
    options = ImportOptions(
        tenant_id="t", doc_id="d", stem="notes", tags=("own",), language=language
    )
    return import_markdown(data, options)


def title_of(front: str) -> str:
    return imported(f"---\n{front}\n---\n{BODY}").title


def test_the_sample_has_its_title_and_tags() -> None:
    document = imported((FILES / "23-front-matter.md").read_bytes())
    assert (document.title, document.tags) == ("Leave policy", ("own", "hr", "leave"))
    assert document.pages == ("# Intro\n\nText.\n",)


@each_row(
    ("front", "title"),
    [
        ("title: Leave", "Leave"),
        ("title: >-\n  Leave\n  policy", "Leave policy"),
        ("title: |\n  Leave\n  policy\n", "Leave policy"),
        ("title: 'It''s time'", "It's time"),
        ('title: "Leave: 2027"', "Leave: 2027"),
        ("title: Leave: part 2", "Leave: part 2"),
        ("title: @home and `code`", "@home and `code`"),
        ("# comment\ntitle: Leave # comment", "Leave"),
        ("Title: Leave", "Leave"),
        ("title: 0x1F cup", "0x1F cup"),
        ("title: no", "no"),
        ("author: x\ntitle: Leave\nlist:\n- a\n- b", "Leave"),
        ("title: &t Leave\nother: *t", "Leave"),
    ],
)
def test_the_title_is_read_as_yaml_writes_it(front: str, title: str) -> None:
    assert title_of(front) == title


@each_row(
    "front",
    [
        "title: ''",
        "title:",
        "title: ~",
        "title: null",
        "title: [a, b]",
        "title: {en: a}",
        "title: '{{ page.title }}'",
        "title: {{ page.title }}",
        "title: untitled",
        "title: >-\n",
        "layout: post",
    ],
)
def test_without_a_title_the_first_heading_is_used(front: str) -> None:
    assert title_of(front) == "Intro"


@each_row(
    ("front", "tags"),
    [
        ("tags: [hr, leave]", ("hr", "leave")),
        ("tags:\n- hr\n- 'sick leave'\n", ("hr", "sick leave")),
        ("tags: hr, leave", ("hr", "leave")),
        ("tags: '#hr #leave'", ("hr", "leave")),
        ("tags: sick leave", ("sick leave",)),
        ("tags: [2027, no, 2027]", ("2027", "no")),
        ("tags: [[a], {b: c}, d]", ("d",)),
        ("keywords: hr; leave", ("hr", "leave")),
        ("tags:", ()),
    ],
)
def test_tags_are_read_from_lists_and_text(front: str, tags: tuple[str, ...]) -> None:
    assert imported(f"---\n{front}\n---\n{BODY}").tags == ("own", *tags)


@each_row(
    ("front", "date"),
    [
        ("date: 2027-03-01", "2027-03-01"),
        ("date: 2027-03-01T10:00:00+02:00", "2027-03-01"),
        ("date: '2027/3/1'", "2027-03-01"),
        ("date: 1 March 2027", "2027-03-01"),
        ("date: March 1, 2027", "2027-03-01"),
        ("date: 01.03.2027", "2027-03-01"),
        ("published: 20270301", "2027-03-01"),
        ("date: 03/04/2027", None),
        ("date: 2027-13-45", None),
        ("date: soon", None),
    ],
)
def test_the_date_is_read_if_it_is_certain(front: str, date: str | None) -> None:
    assert imported(f"---\n{front}\n---\n{BODY}").date == date


@each_row(
    ("front", "language"),
    [
        ("lang: de", "de"),
        ("language: pt_BR", "pt-BR"),
        ("locale: en-GB", "en-GB"),
        ("lang: no", "no"),
        ("lang: German!", None),
    ],
)
def test_the_language_is_a_tag(front: str, language: str | None) -> None:
    assert imported(f"---\n{front}\n---\n{BODY}").language == language


def test_the_options_of_the_import_take_precedence() -> None:
    assert imported(f"---\nlang: de\n---\n{BODY}", language="fr").language == "fr"


@each_row(
    "front",
    [
        '+++\ntitle = "Leave"\ndate = 2027-03-01T00:00:00Z\n[taxonomies]\ntags = ["hr"]\n+++\n',
        '{\n"title": "Leave", "date": "2027-03-01", "tags": ["hr"]\n}\n',
        "---\ntitle: Leave\ndate: 2027-03-01\ntags: [hr]\n...\n",
        "---\r\ntitle: Leave\r\ndate: 2027-03-01\r\ntags: [hr]\r\n---\r\n",
    ],
    ids=["toml", "json", "yaml with dots", "windows line ends"],
)
def test_other_forms_are_read_and_removed(front: str) -> None:
    document = imported(front + BODY)
    assert (document.title, document.date, document.tags) == ("Leave", "2027-03-01", ("own", "hr"))
    assert document.pages == (BODY,)


@each_row(
    "text",
    [
        "---\n\n- one\n\n---\n\ntext\n",
        "---\n\nA rule: above and below\n\n---\n\ntext\n",
        "---\nA rule above, a heading below\n---\n",
        "---\ntitle: no end\n",
        '{"a": 1}\ntext\n',
        "{not json\n",
        "+++\nnot toml\n+++\n",
        "text\n---\ntitle: x\n---\n",
    ],
)
def test_other_text_is_kept(text: str) -> None:
    assert split_front_matter(text) == (FileFacts(), text, ())


@each_row(
    "front",
    [
        'title: "Leave of absence\ntags: [hr, leave]',
        "title: Leave\ntags: [hr, leave\ndate: 2027-01-31",
        "tags: {hr\n  leave\nlang: de",
        "title: 'a: b",
    ],
)
def test_front_matter_with_an_open_quote_or_bracket_gives_no_facts(front: str) -> None:
    document = imported(f"---\n{front}\n---\n{BODY}")
    assert (document.title, document.tags, document.pages) == ("Intro", ("own",), (BODY,))
    assert (document.date, document.language) == (None, None)
    assert [it.code for it in document.warnings] == ["broken_front_matter"]


def test_a_number_that_has_no_decimal_form_is_no_title() -> None:
    number = f"0x{'f' * 5000}"
    front = f"+++\ntitle = {number}\ntags = [{number}, 'hr']\n+++\n"
    assert split_front_matter(front + BODY) == (FileFacts(tags=("hr",)), BODY, ())


@each_row(
    "front",
    [
        "a: &a [x, x, x]\n"
        + "".join(
            f"{b}: &{b} [*{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        )
        + "title: Leave\ntags: *i",
        "title: Leave\ndeep: " + "[" * 20_000 + "]" * 20_000,
        "title: Leave\nrun: !!python/object/apply:os.system [true]",
        "title: Leave\n? [a]\n: b",
    ],
    ids=["aliases", "nesting", "code", "keys"],
)
def test_hostile_front_matter_is_harmless(front: str) -> None:
    document = imported(f"---\n{front}\n---\n{BODY}")
    assert document.tags == ("own",)
    assert document.pages[0].endswith(BODY)


@given(st.text(alphabet="abt:-+[]{}'\"#>|&*! \n\ttile=,", max_size=80))
def test_any_front_matter_is_read_or_kept(front: str) -> None:
    try:
        document = imported(f"---\n{front}\n---\n{BODY}")
    except ImportFailed:
        return
    assert BODY in "".join(document.pages)


def test_a_title_block_of_pandoc_is_front_matter() -> None:
    document = imported("% Water report\n  of 2027\n% Eva Rossi\n% 5 June 2027\n\n# Rivers\n")
    assert (document.title, document.date) == ("Water report of 2027", "2027-06-05")
    assert document.pages == ("\n# Rivers\n",)
    assert imported("% of the sum\nis paid.\n").pages == ("% of the sum\nis paid.\n",)
