"""Markdown that takes the square of its size in time, or far more memory than it has bytes."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.documents.importers.base import ImportFailed, ImportOptions
from mcp_tools_proxy.documents.importers.markdown import import_markdown
from mcp_tools_proxy.documents.importers.markdown_prose import MASK, MarkdownProse
from tests.support.tables import each_row

SIZE = 200_000
CPU_S = 10
"""Most of these take under a second; those that took the square of their size took minutes."""

OPTIONS = ImportOptions(tenant_id="t", doc_id="d", stem="s", with_link_targets=False)


def backticks(size: int) -> str:
    runs: list[str] = []
    while size > 0:
        runs.append("`" * (len(runs) + 1))
        size -= len(runs[-1]) + 3
    return " a ".join(runs)


@each_row(
    "text",
    [
        "<b>" + backticks(5 * SIZE),
        "# " + backticks(SIZE),
        "[" * SIZE,
        "![" * (SIZE // 2),
        "*a **a " * (SIZE // 7),
        "[a](b " * (SIZE // 6),
        '[a](b "' * (SIZE // 7),
        "[a](<b" * (SIZE // 6),
        "[a\n" * (SIZE // 3),
        "|a|b|\n|-|-|\n" + "|\n" * (SIZE // 2),
        ">" * SIZE,
        "\n".join(">" * depth + " a" for depth in range(1, 600)),
        "\n".join("  " * depth + "- a" for depth in range(1, 400)),
        "- " * (SIZE // 2),
        "a <!-- " * (SIZE // 7),
        "a <" * (SIZE // 3),
        "<a " * (SIZE // 3),
        '<a href="' * (SIZE // 9),
        "<a b='<a b=\"" * (SIZE // 12),
        "<p hidden>a" * (SIZE // 11),
        "<p " + "a=b " * (SIZE // 4) + " hidden",
        "<i>" * (SIZE // 6) + "a" + "</i>" * (SIZE // 7),
        "a <?" * (SIZE // 4),
        "a^b" * (SIZE // 3),
        "a~b" * (SIZE // 3),
        "$a" * (SIZE // 2),
        "[//]: # (a\n" * (SIZE // 11),
        '[//]: # "' * (SIZE // 9),
        "---\n" + "a: b\n" * (SIZE // 5),
        "<div hidden>\n\na" * (SIZE // 15),
        "- <span hidden>a\n" * (SIZE // 17),
        "a <?\n\n" * (SIZE // 6) + ">",
        "[^a]: b [^a]\n" * (SIZE // 13),
        "".join(f"[^{number}]: [^{number + 1}]\n\n" for number in range(SIZE // 16)),
        "".join(f"[{number}]: a\n" for number in range(SIZE // 9)),
        "|a|\n|-|\n" * (SIZE // 8),
        "|a|\n|-|\n" + "|a|b" * (SIZE // 4),
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_size(text: str) -> None:
    start = time.process_time()
    document = import_markdown(f"first\n\n{text}\n\nlast".encode(), OPTIONS)
    assert time.process_time() - start < CPU_S
    assert document.pages[0].startswith("first")


@each_row("heading", ["# a\n", "a\n=\n"])
def test_a_file_with_too_many_headings_is_refused(heading: str) -> None:
    with pytest.raises(ImportFailed, match="100000 headings: cut it into parts"):
        import_markdown((heading * 100_001).encode(), OPTIONS)


@given(st.text(alphabet="`a <>!-/\\\n~$", max_size=60))
def test_masked_code_keeps_all_offsets(text: str) -> None:
    source = MarkdownProse(text)
    assert len(source.prose) == len(text)
    assert all(seen in {kept, MASK} for seen, kept in zip(source.prose, text, strict=True))
