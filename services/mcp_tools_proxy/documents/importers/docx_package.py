"""The parts of a Word file and how they refer to each other."""

import posixpath
from collections.abc import Iterable, Mapping
from xml.etree.ElementTree import Element

from mcp_tools_proxy.documents.importers.base import ImportFailed
from mcp_tools_proxy.documents.importers.xml_archive import XmlArchive
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_OFFICE = "schemas.openxmlformats.org"
_STRICT = "http://purl.oclc.org/ooxml"
_SHAPES = "http://schemas.microsoft.com/office/word"

_PREFIXES = {
    f"http://{_OFFICE}/wordprocessingml/2006/main": "w",
    f"{_STRICT}/wordprocessingml/main": "w",
    f"http://{_OFFICE}/officeDocument/2006/math": "m",
    f"{_STRICT}/officeDocument/math": "m",
    f"http://{_OFFICE}/officeDocument/2006/relationships": "r",
    f"{_STRICT}/officeDocument/relationships": "r",
    f"http://{_OFFICE}/drawingml/2006/wordprocessingDrawing": "wp",
    f"{_STRICT}/drawingml/wordprocessingDrawing": "wp",
    f"http://{_OFFICE}/drawingml/2006/main": "a",
    f"{_STRICT}/drawingml/main": "a",
    f"http://{_OFFICE}/drawingml/2006/diagram": "dgm",
    f"{_STRICT}/drawingml/diagram": "dgm",
    f"{_SHAPES}/2010/wordprocessingShape": "wps",
    f"{_SHAPES}/2010/wordml": "w14",
    "urn:schemas-microsoft-com:vml": "v",
    "urn:schemas-microsoft-com:office:office": "o",
    f"http://{_OFFICE}/package/2006/relationships": "rel",
    "http://purl.org/dc/elements/1.1/": "dc",
}

_MAIN = "word/document.xml"


@dataclass(frozen=True, slots=True)
class PartReference:
    """A reference of one part to another, or to an address."""

    kind: str
    target: str
    is_external: bool


class WordPackage:
    """Finds and parses the parts of a Word file. ``w:p`` is named ``w_p``."""

    def __init__(self, data: bytes) -> None:
        """Raises ImportFailed."""
        self._archive = XmlArchive(data, ".docx")
        self._names = {name.lower(): name for name in self._archive.names}
        if not any(name.startswith("word/") for name in self._names):
            raise ImportFailed(
                "is not a .docx file: it does not contain a Word text; save it again"
            )
        roots = self.relations("").values()
        self.main = self._first(roots, "officeDocument") or _MAIN
        self._core = self._first(roots, "core-properties") or "docProps/core.xml"
        self.links = self.relations(self.main)

    @property
    def has_pictures(self) -> bool:
        """Whether the file contains pictures."""
        return any("/media/" in name for name in self._names)

    @property
    def inserted_documents(self) -> int:
        """The number of other files whose text Word shows within this one."""
        return sum(it.kind in ("aFChunk", "subDocument") for it in self.links.values())

    def root(self) -> Element:
        """Return the text. Raises ImportFailed."""
        root = self.part(self.main)
        if root is None or root.tag != "w_document":
            raise ImportFailed(
                "is not a readable .docx file: it does not contain a Word text; save it again"
            )
        return root

    def part(self, name: str) -> Element | None:
        """Return an XML part, or None. Raises ImportFailed."""
        return self._archive.parse(self._names.get(name.lower(), ""), _PREFIXES, separator="_")

    def part_of_kind(self, kind: str) -> tuple[str, Element | None]:
        """Return the name and content of the main text's part, such as ``styles``."""
        name = self._first(self.links.values(), kind)
        name = name or posixpath.join(posixpath.dirname(self.main), f"{kind}.xml")
        return name, self.part(name)

    def relations(self, name: str) -> Mapping[str, PartReference]:
        """Return the references of a part by their ids. Raises ImportFailed."""
        folder, _, file = name.rpartition("/")
        root = self.part(posixpath.join(folder, "_rels", f"{file}.rels"))
        found = {}
        for element in root.iterfind("rel_Relationship") if root is not None else ():
            kind = element.get("Type", "").rpartition("/")[2]
            target = element.get("Target", "")
            is_external = element.get("TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[element.get("Id", "")] = PartReference(kind, target, is_external)
        return found

    def title(self) -> str:
        """Return the title of the file's properties. Raises ImportFailed."""
        core = self.part(self._core)
        return (core.findtext("dc_title") or "") if core is not None else ""

    @staticmethod
    def _first(relations: Iterable[PartReference], kind: str) -> str:
        return next((it.target for it in relations if it.kind == kind and not it.is_external), "")
