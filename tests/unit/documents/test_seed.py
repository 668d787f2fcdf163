"""The built-in document (contract T-05)."""

import pytest

from mcp_tools_proxy.documents.open_documents import seed_documents
from mcp_tools_proxy.domain.document import Document

pytestmark = pytest.mark.requirement("T-05")


@pytest.fixture(scope="module")
def seed() -> Document:
    (document,) = seed_documents()
    return document


def test_the_seed_is_doc_1_of_tenant_1(seed: Document) -> None:
    assert (seed.tenant_id, seed.doc_id) == ("tenant_1", "doc_1")


def test_the_seed_has_twelve_pages(seed: Document) -> None:
    assert len(seed.pages) == 12


def test_the_seed_has_three_sections(seed: Document) -> None:
    places = {s.section_id: (s.page_start, s.page_end) for s in seed.sections.values()}
    assert places == {"sec_intro": (1, 2), "sec_setup": (3, 5), "sec_troubleshooting": (6, 8)}


def test_every_seed_page_has_different_prose(seed: Document) -> None:
    paragraphs = [part for page in seed.pages for part in page.split("\n\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    assert all(200 <= len(page.split()) <= 400 for page in seed.pages)


@pytest.mark.parametrize("word", ["LDAP", "bind", "TLS", "referral", "52e", "memberOf", "cookie"])
def test_the_seed_mentions_its_subject(seed: Document, word: str) -> None:
    assert word in "\n".join(seed.pages)
