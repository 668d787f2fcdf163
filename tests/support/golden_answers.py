"""Answers in goldens: one structure for all cases that share it; texts in a separate file."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from tests.support.goldens import Golden, flat

TEXT_KEYS = frozenset({"description", "expected", "instructions", "message", "title"})
_ERROR_TEXT = re.compile(r"([A-Z][A-Z_]{3,}): .+", re.DOTALL)


def check_answers(golden: Golden, name: str, answers: Mapping[str, object]) -> None:
    """Compare the answers of cases with ``<name>.txt``, their texts with ``<name>_texts.txt``."""
    golden.check(f"{name}.txt", _grouped(answers, lambda answer: flat(without_texts(answer))))
    golden.check(f"{name}_texts.txt", _grouped(answers, texts_of))


def _grouped(
    answers: Mapping[str, object], lines_of: Callable[[object], Iterable[str]]
) -> Iterator[str]:
    """Yield the cases with equal lines, and these lines; cases without lines are omitted."""
    cases: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for case, answer in sorted(answers.items()):
        cases[tuple(lines_of(answer))].append(case)
    for lines, of_them in cases.items():
        if lines:
            yield from of_them
            yield from (f"  {line}" for line in lines)


def without_texts(value: object, key: str = "") -> object:
    """Return an answer with ``…`` in place of our texts, except for their leading codes."""
    match value:
        case Mapping():
            return {name: without_texts(item, name) for name, item in value.items()}
        case list():
            return [without_texts(item, key) for item in value]
        case str() if key in TEXT_KEYS:
            return "…"
        case str() if found := _ERROR_TEXT.fullmatch(value):
            return f"{found[1]}: …"
    return value


def without_json_rpc(message: Mapping[str, object]) -> Mapping[str, object]:
    return {key: it for key, it in message.items() if (key, it) != ("jsonrpc", "2.0")}


def texts_of(value: object, key: str = "") -> Iterator[str]:
    match value:
        case Mapping():
            for name, item in sorted(value.items()):
                yield from texts_of(item, name)
        case list():
            for item in value:
                yield from texts_of(item, key)
        case str() if value and (key in TEXT_KEYS or _ERROR_TEXT.fullmatch(value)):
            yield value.replace("\n", "\\n")
