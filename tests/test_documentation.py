"""References in code and documents resolve: ids, links, anchors, lists of pages."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from docs.http_api import PAGE, written
from mcp_tools_proxy.domain.audit import Check
from mcp_tools_proxy.gateway.explainer import ORDER
from tests.requirements import REQUIREMENTS
from tests.support.source_files import ROOT, source_files

DOCS = ROOT / "docs"
CONTRACT = DOCS / "reference/contract.md"
CRITERIA = DOCS / "reference/acceptance-criteria.md"
DECISIONS = DOCS / "decisions"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        *(ROOT / "services").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    ]
)
CODE = list(
    source_files(
        *("services", "tests", "benchmarks", "docker", "examples"),
        suffixes=frozenset({".py", ".yaml", ".yml", ".json", ".toml"}),
    )
)

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_EXPLICIT = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_LINK = re.compile(r"(?<!\\)\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")
_SECTION = re.compile(r"(?:contract[,\s]+|\()(§\d+(?:(?:, | and | to )§\d+)*)")
_CRITERION = re.compile(r"\b([TPFWA]-\d{2})\b")
_SOURCE = re.compile(r"\b(A\.\d+|seed 00\d)\b")


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def prose_of(page: Path) -> str:
    """Return a page without its code blocks."""
    return _FENCED.sub("", text_of(page))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """Return the anchors of a page: explicit ones, and those that GitHub derives from headings."""
    prose = prose_of(page)
    slugs: list[str] = []
    for heading in _HEADING.findall(prose):
        words = re.sub(r"<[^>]+/?>(?=\S*</|$)|\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        slugs.append(slug if slug not in slugs else f"{slug}-{slugs.count(slug)}")
    return frozenset([*slugs, *_EXPLICIT.findall(prose)])


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def cited(path: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each id that a file cites, with its page and anchor."""
    text = text_of(path)
    for sections in _SECTION.findall(text):
        for number in re.findall(r"\d+", sections):
            yield f"contract §{number}", CONTRACT, f"section-{number}"
    for criterion in _CRITERION.findall(text):
        yield criterion, CRITERIA, criterion.lower()
    for source in _SOURCE.findall(text):
        prefix = "source-" if source.startswith("A") else ""
        yield source, CRITERIA, prefix + source.lower().replace(".", "-").replace(" ", "-")


@pytest.mark.parametrize("files", [CODE, PAGES], ids=["code", "pages"])
def test_every_cited_id_has_an_anchor(files: list[Path]) -> None:
    citations = [(path, *citation) for path in files for citation in cited(path)]
    assert citations
    lost = {f"{name_of(p)}: {i}" for p, i, page, to in citations if to not in anchors_of(page)}
    assert sorted(lost) == []


def test_the_acceptance_criteria_are_those_with_tests() -> None:
    described = {name.upper() for name in anchors_of(CRITERIA) if _CRITERION.match(name.upper())}
    assert described == REQUIREMENTS.keys()


def test_every_id_has_one_anchor() -> None:
    ids = [name for page in (CONTRACT, CRITERIA) for name in _EXPLICIT.findall(text_of(page))]
    twice = {name for name in ids if ids.count(name) > 1}
    assert {name for name in twice if not name.startswith("t-")} == set()  # T: on both pages


def test_the_page_of_the_http_api_is_generated_from_the_openapi_document() -> None:
    """``make docs`` writes it."""
    assert written(text_of(PAGE)) == text_of(PAGE)


def is_broken(page: Path, target: str) -> bool:
    """Return whether a relative link of a page is broken."""
    place, _, anchor = target.partition("#")
    file = (page.parent / unquote(place)).resolve() if place else page
    if not file.exists() or not file.is_relative_to(ROOT):
        return True
    return bool(anchor) and file.suffix == ".md" and anchor not in anchors_of(file)


def links_of(page: Path) -> list[str]:
    """Return the targets of a page's links within the project."""
    found = _LINK.findall(re.sub(r"`[^`\n]*`", "", prose_of(page)))
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def test_every_link_and_anchor_resolves() -> None:
    links = [(page, target) for page in PAGES for target in links_of(page)]
    assert links
    assert [f"{name_of(page)}: {to}" for page, to in links if is_broken(page, to)] == []


def test_documentation_links_only_to_its_own_pages() -> None:
    """Files outside docs/ are not part of the site."""
    outside = [
        f"{name_of(page)}: {target}"
        for page in PAGES
        if page.is_relative_to(DOCS)
        for target in links_of(page)
        if not (page.parent / unquote(target.partition("#")[0])).resolve().is_relative_to(DOCS)
    ]
    assert outside == []


_NAMED = re.compile(r"`([\w./-]+\.py)(?:::|`, `)?(\w+)?`(?! \(new)")
"""A file, optionally with a name in it: ``a.py``, ``a.py::test_b``, ``a.py`, `B``."""
_BASES = (ROOT, ROOT / "services/mcp_tools_proxy")
FOR_CONTRIBUTORS = [
    page for page in PAGES if page.parent.name in {"contributing", "decisions", "reference"}
]


def is_lost(file: str, name: str) -> bool:
    """Return whether the repository lacks the file, or the file lacks the name."""
    found = [base / file for base in _BASES if (base / file).is_file()]
    if not found and "/" not in file:
        found = list((ROOT / "services").rglob(file))
    return not found or (bool(name) and not re.search(rf"\b{name}\b", text_of(found[0])))


def test_named_files_exist_and_contain_the_names_cited_with_them() -> None:
    named = [(page, *found) for page in FOR_CONTRIBUTORS for found in _NAMED.findall(text_of(page))]
    assert named
    lost = {f"{name_of(page)}: {file} {name}" for page, file, name in named if is_lost(file, name)}
    assert sorted(lost) == []


def test_the_index_of_decisions_lists_every_page() -> None:
    pages = {page.name for page in DECISIONS.glob("*.md")} - {"index.md"}
    assert pages
    listed = {target.partition("#")[0] for target in links_of(DECISIONS / "index.md")}
    assert {name for name in listed if "/" not in name} == pages


MAX_DECISION_LINES = 45


def test_a_decision_is_short_and_names_its_evidence() -> None:
    parts = ("\n**Decision.**", "\n**Evidence.**", "\n**Revisit**")
    bad = [
        page.name
        for page in DECISIONS.glob("*.md")
        if page.name != "index.md"
        and (
            len(text_of(page).splitlines()) > MAX_DECISION_LINES
            or not all(part in text_of(page) for part in parts)
        )
    ]
    assert bad == []


def test_the_page_of_logs_has_the_checks_in_the_order_of_a_call() -> None:
    page = text_of(DOCS / "reference/metrics-and-logs.md")
    listed = page.partition("The checks, in their order:")[2].partition(".")[0]
    named = re.findall(r"`(\w+)`", listed)
    assert [it for it in named if it in ORDER] == list(ORDER)
    assert named == [it for it in Check if it in named]
    missing = set(Check) - {*named, Check.OPERATION, Check.CALLER, Check.GATEWAY}
    assert missing == set()
