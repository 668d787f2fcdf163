"""The options of an import of a folder, and for each of its files."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from hashlib import sha256
from pathlib import Path

from mcp_tools_proxy.cli.documents.import_plan import PlannedFile
from mcp_tools_proxy.cli.documents.rights_file import RightsFile
from mcp_tools_proxy.documents.importers.base import IMPORTER_VERSION, ImportOptions
from mcp_tools_proxy.documents.importers.file_kind import KINDS, FileKind
from mcp_tools_proxy.domain.fast_dataclass import dataclass

OptionsOf = Callable[[str, str, Sequence[str]], ImportOptions]
"""Returns the options for a path, a doc_id and tags in addition to those of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """The options of one import of a folder; an empty ``include`` is every file.

    ``is_named``: an operator named the source, so its documents may come from any folder.
    """

    source: str = ""
    is_named: bool = False
    include: tuple[str, ...] = ()
    rights_path: Path | None = None
    rights: RightsFile = field(default_factory=RightsFile)
    jobs: int | None = None
    adopts: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)
    """Facts in the command's options: if they change, files are imported again."""
    reads_all: bool = False
    is_dry_run: bool = False
    prunes: bool = False
    prunes_all: bool = False


class FileOptions:
    """The options for each file of a folder, and the version of the importer that they make."""

    def __init__(self, options: FolderOptions, options_of: OptionsOf) -> None:
        self._rights = options.rights
        self._facts = options.facts
        self._options_of = options_of
        self._importers: dict[tuple[tuple[str, ...], bool, bool, str | None], str] = {}
        """Versions of importers with options, by what differs between the files."""

    def importer_of(self, file: PlannedFile, digest: str) -> str:
        """Return the importer's version, with a hash of the options that change its result."""
        rule = self._rights.rule_of(file.path)
        encoding = _named_encoding(file, digest)
        kind = KINDS.get(os.path.splitext(file.path)[1].lower())
        may_need_ocr = kind in (FileKind.PDF, FileKind.PICTURE, None)
        is_untrusted = rule is not None and rule.untrusted
        key = (() if rule is None else tuple(rule.tags), is_untrusted, may_need_ocr, encoding)
        if key not in self._importers:
            options = self.of(file, digest)
            if not may_need_ocr:
                options = replace(options, ocr_languages=())
            facts = {**self._facts, **({"untrusted": True} if is_untrusted else {})}
            self._importers[key] = _importer_of(options, facts)
        return self._importers[key]

    def of(self, file: PlannedFile, digest: str) -> ImportOptions:
        """Return the options for a file with this content."""
        rule = self._rights.rule_of(file.path)
        options = self._options_of(file.path, file.doc_id, () if rule is None else rule.tags)
        encoding = options.encoding or _named_encoding(file, digest)
        return replace(options, encoding=encoding)


def _importer_of(options: ImportOptions, facts: Mapping[str, object]) -> str:
    changed = {
        name: value
        for name, value in asdict(options).items()
        if name not in ("tenant_id", "doc_id", "stem", "encoding")
        and value != getattr(_DEFAULTS, name)
    }
    changed |= {name: value for name, value in facts.items() if value}
    encoding = f"{_ENCODING_MARK}{options.encoding}" if options.encoding else ""
    if not changed:
        return f"{IMPORTER_VERSION}{encoding}"
    changes = sha256(json.dumps(changed).encode()).hexdigest()[:12]
    return f"{IMPORTER_VERSION}-{changes}{encoding}"


_ENCODING_MARK = "@"


def _named_encoding(file: PlannedFile, digest: str) -> str | None:
    """Return the encoding that an operator named for this content, for later runs without it."""
    stored = None if file.head is None else file.head.source
    if stored is None or stored.digest != digest:
        return None
    return stored.importer.partition(_ENCODING_MARK)[2] or None


_DEFAULTS = ImportOptions(tenant_id="", doc_id="", stem="")
