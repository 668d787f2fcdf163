"""Finds constructions that technical writers rarely use, and counts words of the documentation.

``python -m tests.plain_english [PATH …]`` prints the rate of each group, and the sentences below
the paths. A hit is a place to look at: about a third of them are ordinary English. Projects that
are easy to read have 15 to 47 per 10,000 words.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.support.source_files import ROOT, source_files

MOST_PER_10_000 = 55

GENERATED = frozenset({"cli.md", "http-api.md", "metrics.md", "settings.md"})
"""Pages that scripts write from the code, apart from their introductions."""

_GENERATED_PART = re.compile(r"<!-- \w+: [^>]+ -->\n.*?<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Construction:
    """A pattern, and how to rewrite the sentence."""

    pattern: re.Pattern[str]
    advice: str


def _construction(pattern: str, advice: str) -> Construction:
    return Construction(re.compile(pattern, re.IGNORECASE), advice)


CONSTRUCTIONS = (
    _construction(
        r"\bwhat (is|was|are|were|it|they|we|an?|the|somebody|of|has|had|can|may|comes|came|did"
        r"|does|else)\b",
        'name the thing: "what a caller sent" is "the request"',
    ),
    _construction(
        r"\bwho (is|has|may|can|reads|sends|calls|looks|gets|wants|signs|opens|comes)\b",
        'name the person: "who calls" is "the caller"',
    ),
    _construction(
        r"\b(by|of|to|with|from|for|in|at|on|under|behind) (which|whom|whose|what)\b",
        'two sentences, or "that": "the key by which it is found" is "its key"',
    ),
    _construction(
        r"\bwhere (there|it|they|that|an?|no|the|somebody|nobody|one)\b",
        'conditions begin with "if" or "when"',
    ),
    _construction(
        r"\b(is|are|was|were|has|have|had) no(ne)?\b", 'use "not", "without", or an adjective'
    ),
    _construction(
        r"\b(no|some|any)body\b|\bwhoever\b", "name the user, operator, client or caller"
    ),
    _construction(r"\belse\b", 'use "otherwise", or "other"'),
    _construction(
        r"\bof (its|their|our|his|a) own\b|\bof ours\b|\bof now\b",
        "say which: separate, our, current",
    ),
    _construction(r"\bin force\b", 'use "active" or "valid"'),
    _construction(r"\banew\b", 'use "again", or a verb with "re-"'),
    _construction(
        r"\bstands? (for|there|behind)\b|\bleads? (to|there)\b",
        "use is, means, points to, contains",
    ),
    _construction(r"\bso many\b|\bused so\b|\bnot so\b", "give the number, or the state"),
    _construction(r"\bno good\b|\bis good\b|\bgood for\b", 'use "valid", "invalid", "for"'),
    _construction(r"\bmend(s|ed)?\b|\blooks? after\b", 'use "fix", "manage"'),
    _construction(r"\bby it(self|s)?\b|\bby now\b|\bby then\b", "leave it out, or give the time"),
    _construction(
        r"\bas (it|they|that) (is|are|was|were|do|does|did|has|have)\b",
        'use "unchanged", or compare two nouns',
    ),
    _construction(
        r"\bthat there (is|are|may|were|was)\b|\bthere may be\b", "begin with the subject"
    ),
    _construction(
        r"\bmeanwhile\b|\bnevertheless\b|\bhowever (many|much|long|large|often|late)\b"
        r"|\bwhatever\b",
        'use "while", "but", "any"',
    ),
    _construction(
        r"\bapart from\b|\ball the same\b|\bin any case\b", 'use "except", or leave it out'
    ),
)

Text = tuple[int, str]
"""A line number, and the text that begins there."""


_COMMENT = re.compile(r"(?:^|  ) *#(.*)")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings_and_comments(path: Path) -> Iterator[Text]:
    """Yield the docstrings and the comments of a module."""
    for node in ast.walk(_tree(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if comment := _COMMENT.search(line):
            yield number, comment[1]


def messages(path: Path) -> Iterator[Text]:
    """Yield the string literals of two words or more that are not docstrings, SQL or paths."""
    tree = _tree(path)
    ignored = {
        id(part)
        for node in ast.walk(tree)
        for part in (
            [node.value]
            if isinstance(node, ast.Expr)
            else node.values
            if isinstance(node, ast.JoinedStr)
            else []
        )
    }
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                text = "".join(
                    str(it.value) if isinstance(it, ast.Constant) else "X" for it in parts
                )
            case ast.Constant(value=str(text)) if id(node) not in ignored:
                pass
            case _:
                continue
        if len(text.split()) > 1 and not re.search(
            r"[{}<>;=]{2}|SELECT|INSERT|CREATE|redis\.call|^\S+[/_.:]\S+$", text
        ):
            yield node.lineno, text


def names_of_tests(path: Path) -> Iterator[Text]:
    """Yield the names of a module's tests as sentences."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node.lineno, node.name.removeprefix("test_").replace("_", " ")


def page_lines(path: Path) -> Iterator[Text]:
    """Yield the lines of a page without its code blocks, or of a template without its markup."""
    text = path.read_text(encoding="utf-8")
    markup = r"<[^>]+>|\{[%{#].*?[%}#]\}" if path.suffix == ".html" else r"```.*?```"
    text = re.sub(markup, lambda found: "\n" * found[0].count("\n") or " ", text, flags=re.DOTALL)
    yield from enumerate(text.splitlines(), 1)


def pages() -> Sequence[Path]:
    """Return the pages of the documentation, README and changelog."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _product() -> Sequence[Path]:
    return list(source_files("services"))


def _tests() -> Sequence[Path]:
    return list(source_files("tests"))


GROUPS: Mapping[str, tuple[Callable[[], Sequence[Path]], Callable[[Path], Iterator[Text]]]] = {
    "docstrings and comments": (_product, docstrings_and_comments),
    "messages": (_product, messages),
    "console templates": (lambda: sorted((ROOT / "services").rglob("*.html")), page_lines),
    "documentation": (pages, page_lines),
    "docstrings and comments of tests": (_tests, docstrings_and_comments),
    "names of tests": (_tests, names_of_tests),
}


@dataclass(slots=True)
class Rate:
    """The words of a group, and the sentences in it with a construction."""

    words: int = 0
    found: list[tuple[Path, str]] = field(default_factory=list)
    """The file, and the place, the words around the construction, and the advice."""

    @property
    def per_10_000(self) -> float:
        return len(self.found) / max(1, self.words) * 10_000


def rate_of(group: str) -> Rate:
    """Read all files of a group."""
    files, texts = GROUPS[group]
    rate = Rate()
    for path in files():
        for line, text in texts(path):
            rate.words += len(re.findall(r"[A-Za-z']+", text))
            rate.found += [(path, found) for found in _findings(path, line, text)]
    return rate


def _findings(path: Path, line: int, text: str) -> Iterator[str]:
    for construction in CONSTRUCTIONS:
        for found in construction.pattern.finditer(text):
            around = " ".join(text[max(0, found.start() - 50) : found.end() + 50].split())
            yield f"{path.relative_to(ROOT)}:{line}: …{around}… ({construction.advice})"


def words_of_pages() -> tuple[int, int]:
    """Return the words of pages that people write, and of pages and tables that scripts write."""
    written = generated = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        parts = [text] if path.name in GENERATED else _GENERATED_PART.findall(text)
        of_scripts = sum(len(part.split()) for part in parts)
        generated += of_scripts
        written += len(text.split()) - of_scripts
    return written, generated


def main(arguments: Sequence[str]) -> None:
    """Print the rates, and the sentences in the paths; with ``words``, only the words of pages."""
    if arguments != ["words"]:
        for group in GROUPS:
            rate = rate_of(group)
            print(f"{group:33} {rate.words:7} words {rate.per_10_000:6.0f} per 10,000")  # noqa: T201
            for path, found in rate.found:
                if any(path.is_relative_to(Path(it).absolute()) for it in arguments):
                    print(f"  {found}")  # noqa: T201
    written, generated = words_of_pages()
    print(f"documentation: {written} words, and {generated} generated from the code")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
