"""The options for the files of a folder, and the version of the importer that they make."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256

from mcp_tools_proxy.cli.documents.import_plan import PlannedFile
from mcp_tools_proxy.cli.documents.rights_file import RightsFile
from mcp_tools_proxy.documents.importers.base import IMPORTER_VERSION, ImportOptions
from mcp_tools_proxy.documents.importers.file_kind import KINDS, FileKind

OptionsOf = Callable[[str, str, Sequence[str]], ImportOptions]
"""Returns the options for a path, a doc_id and tags in addition to those of the command."""


class FileOptions:
    """The options for each file of a folder; ``facts`` are those in the command's options."""

    def __init__(
        self, rights: RightsFile, options_of: OptionsOf, facts: Mapping[str, object]
    ) -> None:
        self._rights = rights
        self._options_of = options_of
        self._facts = facts
        self._importers: dict[tuple[tuple[str, ...], bool, str | None], str] = {}
        """Versions of importers with options, by what differs between the files."""

    def importer_of(self, file: PlannedFile, digest: str) -> str:
        """Return the importer's version, with a hash of the options that change its result."""
        rule = self._rights.rule_of(file.path)
        encoding = _named_encoding(file, digest)
        kind = KINDS.get(os.path.splitext(file.path)[1].lower())
        may_need_ocr = kind in (FileKind.PDF, FileKind.PICTURE, None)
        key = (() if rule is None else tuple(rule.tags), may_need_ocr, encoding)
        if key not in self._importers:
            options = self.of(file, digest)
            if not may_need_ocr:
                options = replace(options, ocr_languages=())
            self._importers[key] = _importer_of(options, self._facts)
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
