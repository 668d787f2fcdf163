"""Deliberate breaks: small changes of the product, each of which some test has to notice.

They are data, one TOML file for each package, beside this module.
"""

import ast
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = Path("services/mcp_tools_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """One change: ``old``, which ``file`` holds exactly once, becomes ``new``.

    ``what`` is the fault that this makes, in one sentence. ``file`` counts from PACKAGE and
    is in ``package``, ``tests`` are files or folders from the root; one test of theirs has to fail.
    """

    package: str
    id: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def path_in(self, root: Path) -> Path:
        """Return the file in a copy of the repository."""
        return root / PACKAGE / self.file

    def problem(self, root: Path = ROOT) -> str | None:
        """Return why the break cannot be tried on the files at ``root``, None if it can."""
        path = self.path_in(root)
        missing = [it for it in self.tests if not (root / it).exists()]
        if not self.file.startswith(f"{self.package}/"):
            return f"{self.file} is not in {self.package}"
        if not path.is_file():
            return f"there is no {self.file}"
        if missing or not self.tests:
            return f"there is no {', '.join(missing) or 'test'}"
        text = path.read_text(encoding="utf-8")
        if (count := text.count(self.old)) != 1:
            return f"{self.file} has the old text {count} times"
        if path.suffix == ".py" and not _is_python(self.applied_to(text)):
            return "the new text is not Python"
        return None

    def applied_to(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text.replace(self.old, self.new)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def load_breaks(folder: Path = Path(__file__).parent) -> Sequence[Break]:
    """Read all breaks, package by package."""
    return [found for path in sorted(folder.glob("*.toml")) for found in _read(path)]


def choose(breaks: Sequence[Break], words: Collection[str]) -> Sequence[Break]:
    """Return those of the packages in ``words``, or with another word in their id; all for none."""
    packages = {it.package for it in breaks}
    return [
        it
        for it in breaks
        if not words or any(it.package == w if w in packages else w in it.id for w in words)
    ]


def _read(path: Path) -> Iterator[Break]:
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["break"]:
        yield Break(**{**entry, "package": path.stem, "tests": tuple(entry["tests"])})
