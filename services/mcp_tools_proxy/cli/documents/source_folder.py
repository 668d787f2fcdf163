"""Lists the files of a folder to import, and opens them without following links."""

import fnmatch
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import field
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.file_kind import KINDS, FileKind, kind_of_start
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import did_you_mean

MAX_PATH_CHARS = 1_000

_NOT_DOCUMENTS = frozenset({"__macosx", "thumbs.db", "desktop.ini"})
_LOCK_FILES = "~$"
"""Start of the names of Word's and Excel's lock files; those of LibreOffice start with a dot."""

_COPIES = frozenset(
    (".bak", ".old", ".orig", ".tmp", ".temp", ".swp", ".part", ".partial", ".crdownload", ".lock")
)
_SOURCES = re.compile(
    r"""\.(?:
    # programs and web sites
    asm|bas|bash|bat|c|cc|cgi|class|cmake|cmd|coffee|cpp|cs|css|cxx|d|dart|ejs|erl|exs?|f90|fs
    |go|gradle|groovy|h|hh|hpp|hs|hxx|java|jl|js|jsx|kts?|less|lua|m|mjs|mk|ml|mm|pas|pl|pm
    |ps1|psm1|pyi?|pyx|r|rb|rs|s|sass|scala|scss|sh|sql|svelte|swift|tcl|tsx?|vbs?|vue|zsh
    # settings, logs and data of programs
    |cfg|conf|env|geojson|har|ini|ipynb|log|map|plist|properties|reg|toml|webmanifest|xsd|xslt?|ya?ml
    # programs
    |apk|app|deb|dll|dylib|exe|jar|msi|nupkg|o|pyc|rpm|so|vsix|wasm|whl
    )""",
    re.VERBOSE,
)
_WEB_PAGES = frozenset((".asp", ".aspx", ".jsp", ".php"))
_PAGE_PROGRAM = re.compile(rb"<%|<\?php|<\?=|<jsp:|<asp:|runat=.?server", re.IGNORECASE)
_LOOKED_INTO = 256 * 1024
"""Bytes of a web page in which a program has a mark."""

_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
_COPY = "is a backup or temporary copy: rename it to import it"
_SOURCE = "belongs to a program: if it has text for readers, import it as a single file"
_PICTURE = "is a picture: add --ocr-languages to read it by OCR"

CHANGED = "was changed while it was read; the next run imports it"

_SETTLED_S = 0.25
"""Seconds without a change after which a file counts as written."""


class FileStamp(NamedTuple):
    """Modification and change time in ns, and size. A difference means that a file may differ.

    The inode is not part of it: some network file systems number files anew at each mount.
    """

    mtime_ns: int
    ctime_ns: int
    size: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileStamp":
        """Return the stamp of a file."""
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_size)

    def seconds_until_settled(self) -> float:
        """Return the seconds after which a file that was half written has another stamp.

        A file written in two steps, a few ms apart, was read between them and stored in part.
        """
        age_s = max(time.time_ns() - self.ctime_ns, 0) / 1e9
        return max(_SETTLED_S - age_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """The content of a folder, by relative paths with ``/``.

    ``unknown`` are the ``files`` without a known suffix. ``others`` are files that are not
    documents, ``skipped`` entries that are never imported, with the reasons. ``failed`` are files
    and folders that could not be examined. ``folders`` have all subfolders.
    """

    files: dict[str, FileStamp] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    others: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    def empty_folders(self) -> set[str]:
        """Return the subfolders without any entry but empty folders."""
        used: set[str] = set()
        for path in chain(self.files, self.others, self.skipped, self.failed):
            folder = path.rpartition("/")[0]
            while folder and folder not in used:
                used.add(folder)
                folder = folder.rpartition("/")[0]
        return self.folders - used - set(self.failed)

    def set_aside(self, path: str, reason: str) -> None:
        """Skip a file that is not a document."""
        del self.files[path]
        self.others[path] = reason

    def why_unused(self, pattern: str) -> str:
        """Describe a pattern that matches no file."""
        name = pattern.strip("/")
        same = (it for it in sorted(self.folders) if it.casefold() == name.casefold())
        folder = next(same, name if pattern.endswith("/") else "")
        meant = f"{folder}/**" if folder else None
        advice = "; use paths in the folder, such as hr/** or *.pdf"
        return f"matches no file{did_you_mean(meant, advice)}"

    def may_have(self, path: str) -> bool:
        """Return whether a file exists, or could: its folder could not be listed."""
        if any(path in them for them in (self.files, self.others, self.skipped, self.failed)):
            return True
        return any(path.startswith(f"{folder}/") for folder in (*self.failed, *self.skipped))


class SourceFolder:
    """A folder to import. All methods block."""

    def __init__(self, root: Path, *, has_ocr: bool = False, include: Sequence[str] = ()) -> None:
        """Open the folder; the content decides on suffixes in ``include``. Raises OSError."""
        self.root = root
        self.identity = sha256(os.fsencode(root.resolve())).hexdigest()[:16]
        """Tells folders of one name apart, without the host name: that of a container changes."""
        self._has_ocr = has_ocr
        self._named = {os.path.splitext(pattern)[1].lower() for pattern in include} - {""}
        self._descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the folder."""
        os.close(self._descriptor)

    def list_files(self, *, but: Path | None = None) -> SourceFiles:
        """List the folder without hidden files, lock files and ``but``. Raises OSError."""
        found = SourceFiles()
        left_out = None if but is None else but.stat()
        folders = [""]
        while folders:
            prefix = folders.pop()
            try:
                with os.scandir(self.root / prefix) as entries:
                    folders += self._sort(entries, prefix, found, left_out)
            except OSError as error:
                if not prefix:
                    raise
                found.failed[prefix.rstrip("/")] = f"cannot be listed: {error.strerror}"
        return found

    def _sort(
        self,
        entries: Iterator[os.DirEntry[str]],
        prefix: str,
        found: SourceFiles,
        left_out: os.stat_result | None,
    ) -> list[str]:
        """Add the entries of one folder to ``found``; return its subfolders."""
        folders = []
        for entry in entries:
            path = prefix + entry.name
            if _is_hidden(entry.name):
                continue
            if problem := _problem_of(path):
                found.failed[path] = problem
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    folders.append(f"{path}/")
                    found.folders.add(path)
                elif left_out is None or not os.path.samestat(status, left_out):
                    self._add(path, status, found)
            except FileNotFoundError:
                continue
            except OSError as error:
                found.failed[path] = f"cannot be read: {error.strerror}"
        return folders

    def _add(self, path: str, status: os.stat_result, found: SourceFiles) -> None:
        suffix = os.path.splitext(path)[1].lower()
        if not stat.S_ISREG(status.st_mode):
            found.skipped[path] = _kind_of(status.st_mode)
        elif KINDS.get(suffix) is FileKind.PICTURE and not self._has_ocr:
            found.others[path] = _PICTURE
        elif suffix not in self._named and (reason := _reason_of(path, suffix)):
            found.others[path] = reason
        else:
            found.files[path] = FileStamp.of(status)
            if suffix not in KINDS:
                found.unknown.add(path)

    def look_into(self, path: str) -> tuple[FileStamp, str]:
        """Return the stamp of a file, and why it is not a document, or "". Raises ImportFailed."""
        with self.open(path) as file:
            stamp = FileStamp.of(os.fstat(file.fileno()))
            try:
                kind = kind_of_start(file)
                if self._is_program(path, kind, file):
                    return stamp, _SOURCE
            except ImportFailed as error:
                return stamp, error.reason
            except OSError as error:
                raise ImportFailed(f"cannot be read: {error.strerror}") from error
        return stamp, _PICTURE if kind is FileKind.PICTURE and not self._has_ocr else ""

    def _is_program(self, path: str, kind: FileKind | None, file: BinaryIO) -> bool:
        """Return whether a file named as a program that writes web pages is not a saved page."""
        suffix = os.path.splitext(path)[1].lower()
        if suffix not in _WEB_PAGES or suffix in self._named:
            return False
        file.seek(0)
        return kind is not FileKind.HTML or bool(_PAGE_PROGRAM.search(file.read(_LOOKED_INTO)))

    def open(self, path: str) -> BinaryIO:
        """Open a file below the folder. Raises ImportFailed.

        No part of the path may be a link: somebody who can write to the folder could replace a
        folder by a link while the import runs.
        """
        *folders, name = path.split("/")
        at = os.dup(self._descriptor)
        try:
            for folder in folders:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                inside = os.open(folder, flags, dir_fd=at)
                os.close(at)
                at = inside
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            file = os.fdopen(os.open(name, flags, dir_fd=at), "rb")
        except OSError as error:
            raise ImportFailed(f"cannot be read: {error.strerror}") from error
        finally:
            os.close(at)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise ImportFailed(CHANGED)
        return file

    def check_unchanged(self, path: str, file: BinaryIO, stamp: FileStamp) -> None:
        """Check that an open file is still the one at ``path``. Raises ImportFailed."""
        opened = os.fstat(file.fileno())
        try:
            there = os.stat(self.root / path, follow_symlinks=False)
        except OSError:
            raise ImportFailed(CHANGED) from None
        if FileStamp.of(opened) != stamp or FileStamp.of(there) != stamp:
            raise ImportFailed(CHANGED)

    def is_gone(self, path: str) -> bool:
        """Return whether a file does not exist, while the folder is the one that was opened."""
        try:
            if not os.path.samestat(os.stat(self.root), os.fstat(self._descriptor)):
                return False
            os.stat(self.root / path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return self.root.is_dir()
        except OSError:
            return False
        return False


def stem_of(path: str) -> str:
    """Return a path without its suffix; "Dr. Smith" and "2027.03.05" have none."""
    stem, suffix = os.path.splitext(path)
    return stem if _SUFFIX.fullmatch(suffix) else path


def _is_hidden(name: str) -> bool:
    return name.startswith((".", _LOCK_FILES)) or name.lower() in _NOT_DOCUMENTS


def _reason_of(path: str, suffix: str) -> str:
    """Return why a file is not a document by its name, or ""."""
    if suffix in _COPIES or path.endswith("~"):
        return _COPY
    return _SOURCE if _SOURCES.fullmatch(suffix) else ""


def _problem_of(path: str) -> str | None:
    if len(path) > MAX_PATH_CHARS:
        return f"its path has more than {MAX_PATH_CHARS} characters: shorten it"
    try:
        path.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8: rename it"
    return None


def _kind_of(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "is a link; links are not followed"
    return "is a pipe, a socket or a device, not a file"


def matches(path: str, patterns: Sequence[str], *, ignore_case: bool = False) -> bool:
    """Return whether a relative path matches one of the patterns.

    ``*`` matches within a name, ``**`` any number of folders. A pattern without ``/`` is compared
    with the file's name alone, one that begins with it with the whole path.
    """
    parts = _parts(path, ignore_case=ignore_case)
    for pattern in patterns:
        wanted = _parts(pattern, ignore_case=ignore_case)
        if wanted[0] == "" and _match(parts, wanted[1:]):
            return True
        if _match(parts[-1:] if len(wanted) == 1 else parts, wanted):
            return True
    return False


def _parts(path: str, *, ignore_case: bool) -> list[str]:
    return unicodedata.normalize("NFC", path.casefold() if ignore_case else path).split("/")


def _match(parts: Sequence[str], wanted: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_match(parts[skipped:], wanted[1:]) for skipped in range(len(parts) + 1))
    return (
        bool(parts) and fnmatch.fnmatchcase(parts[0], wanted[0]) and _match(parts[1:], wanted[1:])
    )
