"""The command ``python -m benchmarks.search_quality [--held-out] [--misses]``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.report import Result
from benchmarks.search_quality.engines import ENGINES, Search
from benchmarks.search_quality.manuals import read_manual
from benchmarks.search_quality.questions import Question, read_questions
from benchmarks.search_quality.scores import FIRST, Score, rank_of

HEADER = ("engine", "questions", "among the first three", "first", "MRR")

Ranks = Mapping[str, Mapping[Question, int]]
"""Rank of the first correct page by engine and question."""


def main() -> int:
    """Measure, and print tables for all questions, by language and by kind."""
    arguments = _arguments()
    half = "held_out" if arguments.held_out else "tuning"
    questions = read_questions(half)
    ranks = _rank(questions, arguments.cache, arguments.misses)
    print(f"# Search quality, half: {half}\n")
    print(_table("All questions", ranks, questions).markdown() + "\n")
    for title, names in (
        ("language", {question.language for question in questions}),
        ("kind", {question.kind for question in questions}),
    ):
        for name in sorted(names):
            chosen = [it for it in questions if name in (it.language, it.kind)]
            print(_table(f"{title}: {name}", ranks, chosen).markdown() + "\n")
    return 0


def _rank(questions: Sequence[Question], cache: Path, shows_misses: bool) -> Ranks:
    ranks: dict[str, dict[Question, int]] = {name: {} for name in ENGINES}
    for manual in dict.fromkeys(question.manual for question in questions):
        document = read_manual(manual, cache)
        for name, build in ENGINES.items():
            search = build(document)
            for question in (it for it in questions if it.manual == manual):
                rank = ranks[name][question] = _rank_one(search, question)
                if shows_misses and name == "ours" and not 1 <= rank <= FIRST:
                    _print_miss(search, question)
    return ranks


def _rank_one(search: Search, question: Question) -> int:
    return rank_of(search(question.question), question.pages)


def _print_miss(search: Search, question: Question) -> None:
    found = list(search(question.question))
    print(f"{question.manual}: {question.question}: {found}, not {sorted(question.pages)}")


def _table(title: str, ranks: Ranks, questions: Iterable[Question]) -> Result:
    chosen = list(questions)
    rows: list[Sequence[str]] = [
        (name, *Score([found[question] for question in chosen]).cells())
        for name, found in ranks.items()
    ]
    return Result(title, HEADER, rows)


def _arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_quality")
    parser.add_argument(
        "--held-out",
        action="store_true",
        help="run the half that nothing is tuned on: at the end, once",
    )
    parser.add_argument("--misses", action="store_true", help="list what we do not find")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path.home() / ".cache" / "mcp-tools-proxy-manuals",
        help="folder of the manuals' texts, fetched if they are not there (default: %(default)s)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
