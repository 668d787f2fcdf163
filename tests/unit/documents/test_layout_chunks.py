from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.layout import CHUNK_CHARS, chunks_of, each_chunk
from mcp_tools_proxy.domain.document import Chunk
from tests.support.builders import make_document

pages = st.lists(
    st.text(st.sampled_from("abв \n.!?\u00a0"), max_size=60).map(lambda text: text * 60), max_size=4
)


@given(pages)
def test_chunks_contain_all_text_except_white_space(texts: list[str]) -> None:
    chunks = chunks_of(make_document(pages=texts))
    joined = "".join("".join(chunk.text.split()) for chunk in chunks)
    assert joined == "".join("".join(text.split()) for text in texts)


@given(pages)
def test_chunks_are_neither_empty_nor_too_long(texts: list[str]) -> None:
    lengths = [len(chunk.text) for chunk in chunks_of(make_document(pages=texts))]
    assert all(0 < length <= CHUNK_CHARS for length in lengths)


@given(pages)
def test_chunks_are_numbered_in_reading_order(texts: list[str]) -> None:
    chunks = chunks_of(make_document(pages=texts))
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))


def test_chunks_are_named_by_page_and_number() -> None:
    chunks = chunks_of(make_document(pages=["", "word " * 300]))
    assert [chunk.chunk_id for chunk in chunks] == ["p2-c1", "p2-c2"]


def test_chunks_are_created_on_demand() -> None:
    document = make_document(pages=["word " * 300] * 3)
    one_by_one = iter(each_chunk(document))
    assert [next(one_by_one), *one_by_one] == list(chunks_of(document))


def test_a_chunk_ends_at_a_paragraph_if_possible() -> None:
    first, second = "a. " * 200, "b " * 300
    chunks = chunks_of(make_document(pages=[f"{first}\n\n{second}"]))
    assert chunks[0].text == first.strip()


def test_an_overlong_word_is_split() -> None:
    chunks = chunks_of(make_document(pages=["x" * (CHUNK_CHARS * 2 + 1)]))
    assert [len(chunk.text) for chunk in chunks] == [CHUNK_CHARS, CHUNK_CHARS, 1]


def test_given_chunks_are_kept() -> None:
    own = (Chunk(chunk_id="x", page=1, chunk_index=0, source="own", start=0, end=3),)
    assert chunks_of(make_document(own_chunks=own)) is own
