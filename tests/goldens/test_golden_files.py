"""The goldens: short enough to read, all compared, and able to fail."""

import re
from pathlib import Path

import pytest

from tests.support.goldens import FOLDER, Golden
from tests.support.source_files import source_files

MAX_BYTES = 80_000
MAX_BYTES_OF_ALL = 300_000


def test_goldens_are_small_enough_to_be_read() -> None:
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.txt")}
    assert sizes
    assert {name: size for name, size in sizes.items() if size > MAX_BYTES} == {}
    assert sum(sizes.values()) <= MAX_BYTES_OF_ALL


_CHECK = re.compile(r"golden\.check\(\s*f?\"(?!\{)(.+?)\"")
_CHECK_OF_ANSWERS = re.compile(r"check_answers\(\s*golden, \"(\w+)\"")


def test_each_golden_is_compared_by_a_test() -> None:
    code = "".join(it.read_text(encoding="utf-8") for it in source_files("tests"))
    patterns = [re.sub(r"\{.*?\}", "*", it) for it in _CHECK.findall(code)]
    for name in _CHECK_OF_ANSWERS.findall(code):
        patterns += [f"{name}.txt", f"{name}_texts.txt"]
    left = [it.name for it in FOLDER.glob("*.txt") if not any(map(it.match, patterns))]
    assert (left, bool(patterns)) == ([], True)


def test_a_difference_is_shown_with_the_update_command(tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_text("A\n  one\nB\n  two\n  three\n", encoding="utf-8")
    golden = Golden(update=False, module="tests/goldens/test_codes.py", folder=tmp_path)
    with pytest.raises(AssertionError) as failure:
        golden.check("codes.txt", ["A", "  one", "B", "  two", "  four"])
    assert str(failure.value).splitlines() == [
        "differs from its golden",
        "--- tests/goldens/codes.txt",
        "+++ the current behaviour",
        "@@ -4,2 +4,2 @@",
        " B two",
        "-B three",
        "+B four",
        "",
        "if the change is wanted: pytest -n0 --update tests/goldens/test_codes.py",
    ]


def test_update_writes_the_facts(tmp_path: Path) -> None:
    golden = Golden(update=True, module="", folder=tmp_path)
    golden.check("new.txt", ["a", "b"])
    assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "a\nb\n"
