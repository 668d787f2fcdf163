"""Plans the import of a folder: the document of each file, and the documents without a file."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate

from mcp_tools_proxy.cli.documents.source_folder import FileStamp, SourceFiles, matches, stem_of
from mcp_tools_proxy.documents.folder.file_scan import canonical_name
from mcp_tools_proxy.domain.document import DocumentHead
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.identifiers import is_identifier

_HASH_CHARS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file and its document; ``head`` is that document as it is stored, or None.

    ``is_foreign``: the document was imported from another folder.
    """

    path: str
    stamp: FileStamp
    doc_id: str
    head: DocumentHead | None
    is_foreign: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """The files to import, and the documents of the source whose files are gone.

    ``foreign`` are those of them that were imported from another folder, ``emptied`` those below a
    folder that is now empty, by that folder. ``stored`` is the number of documents that the source
    has now from this folder.
    """

    files: Sequence[PlannedFile]
    gone: Sequence[DocumentHead]
    foreign: Sequence[DocumentHead]
    emptied: Mapping[str, Sequence[DocumentHead]]
    stored: int


def plan_import(
    found: SourceFiles,
    heads: Iterable[DocumentHead],
    *,
    tenant_id: str,
    source: str,
    folder: str | None,
    include: Sequence[str],
    adopts: bool,
) -> ImportPlan:
    """Plan an import; ``heads`` are all documents of the tenant.

    Documents of the source that were imported from another folder than ``folder`` are foreign; if
    it is None, none is.

    A file keeps the id of the document that was imported from its path, even if the path is now
    written in another Unicode form. Other ids are made from the path. With ``adopts``, a file
    becomes the new version of a document that has its id and no source.
    """
    heads = list(heads)
    names = _Names(tenant_id, heads, adopts=adopts)
    of_source = sorted(
        (head.source.path, head.doc_id, head)
        for head in heads
        if head.source is not None and head.source.name == source
    )
    by_path = {path: head for path, _, head in reversed(of_source)}
    by_form = {
        unicodedata.normalize("NFC", path): path for path in by_path if not found.may_have(path)
    }
    files: list[PlannedFile] = []
    for path, stamp in sorted(found.files.items()):
        if include and not matches(path, include):
            continue
        head = by_path.get(path)
        if head is None and (other := by_form.pop(unicodedata.normalize("NFC", path), None)):
            head = by_path.pop(other)
        doc_id = names.new_id(path) if head is None else head.doc_id
        head = head or names.adopted(doc_id)
        is_foreign = head is not None and _is_foreign(head, folder)
        files.append(
            PlannedFile(path=path, stamp=stamp, doc_id=doc_id, head=head, is_foreign=is_foreign)
        )
    kept = {it.doc_id for it in files}
    empty = found.empty_folders()
    gone: list[DocumentHead] = []
    foreign: list[DocumentHead] = []
    emptied: dict[str, list[DocumentHead]] = {}
    for path, doc_id, head in of_source:
        if doc_id in kept or found.may_have(path) or (include and not matches(path, include)):
            continue
        if _is_foreign(head, folder):
            foreign.append(head)
        elif above := next((it for it in _folders_of(path) if it in empty), None):
            emptied.setdefault(above, []).append(head)
        else:
            gone.append(head)
    return ImportPlan(
        files=files,
        gone=gone,
        foreign=foreign,
        emptied=emptied,
        stored=sum(not _is_foreign(head, folder) for *_, head in of_source),
    )


def _is_foreign(head: DocumentHead, folder: str | None) -> bool:
    return folder is not None and head.source is not None and head.source.folder != folder


def _folders_of(path: str) -> Iterator[str]:
    """Return the folders that contain a file, from the outermost on."""
    return accumulate(path.split("/")[:-1], lambda outer, name: f"{outer}/{name}")


class _Names:
    """The ids of a tenant's documents; new ones differ by more than case and Unicode form.

    File systems and people do not tell such names apart.
    """

    def __init__(self, tenant_id: str, heads: Sequence[DocumentHead], *, adopts: bool) -> None:
        self._tenant_id = tenant_id
        self._taken = {_folded(head.doc_id) for head in heads}
        self._free = {head.doc_id: head for head in heads if adopts and head.source is None}
        """Documents that a file may replace."""

    def new_id(self, path: str) -> str:
        """Return an unused id for a path: without suffix, with it, or with a hash of the path."""
        for doc_id in _candidates(path):
            if not is_identifier(doc_id) or canonical_name(self._tenant_id, doc_id) is None:
                continue
            if doc_id in self._free or _folded(doc_id) not in self._taken:
                self._taken.add(_folded(doc_id))
                return doc_id
        raise AssertionError("the last candidate is short and unique")  # pragma: no cover

    def adopted(self, doc_id: str) -> DocumentHead | None:
        """Return the document that a file replaces, once."""
        return self._free.pop(doc_id, None)


def _candidates(path: str) -> Iterator[str]:
    whole = _plain(path)
    stem = _plain(stem_of(path))
    unique = sha256(path.encode()).hexdigest()
    yield stem
    yield whole
    for chars in (len(stem), 150, 50, 15):
        yield f"{stem[-chars:].strip(' /')}-{unique[:_HASH_CHARS]}"
    yield unique


def _plain(path: str) -> str:
    """Return a path in NFC, with spaces in place of control characters and none at the ends."""
    text = "".join(c if c.isprintable() else " " for c in unicodedata.normalize("NFC", path))
    return "/".join(part.strip() for part in text.split("/"))


def _folded(doc_id: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", doc_id).casefold())
