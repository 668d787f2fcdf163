"""ZIP files of XML parts (Office, OpenDocument, EPUB), checked before anything is parsed."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from io import BytesIO
from xml.etree.ElementTree import Element, ParseError, fromstring
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import BadZipFile, LargeZipFile, ZipFile

from mcp_tools_proxy.documents.importers.base import TOO_DEEP, ImportFailed

MAX_PARTS = 5_000

MAX_XML_BYTES = 64 * 1024 * 1024

MAX_BYTES = 256 * 1024 * 1024
"""Limit for all unpacked parts: a novel's text has 10 MB, and pictures are already compressed."""

MAX_TOKENS = 1_500_000
"""Elements and attributes of all parts: 500,000 paragraphs take 15 s and 450 MB. A file of 41 kB
unpacked to a million."""

MAX_DEPTH = 200
"""Nesting limit: 10,000 nested tables took 8 s before they were refused."""

_COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"
_ALTERNATIVES = f"{{{_COMPATIBILITY}}}AlternateContent"
_CHOICE, _FALLBACK = f"{{{_COMPATIBILITY}}}Choice", f"{{{_COMPATIBILITY}}}Fallback"
_OFFICE_NAMES = (
    "http://schemas.microsoft.com/office/",
    "http://schemas.openxmlformats.org/",
    "http://purl.oclc.org/ooxml/",
    "urn:schemas-microsoft-com:",
)
"""Namespaces that office programs know; they show other content instead of what needs others."""

_OLE = b"\xd0\xcf\x11\xe0"


class XmlArchive:
    """The parts of a ZIP file, by name without a leading slash.

    Opening it checks all sizes and every XML part; document types, and with them entities, are
    refused. ``kind`` is the suffix for messages, ``xml`` are patterns for the names of the parts
    that are XML, in lower case.
    """

    def __init__(
        self,
        data: bytes,
        kind: str,
        *,
        xml: tuple[str, ...] = ("*.xml", "*.rels"),
        max_tokens: int | None = None,
    ) -> None:
        """Raises ImportFailed."""
        if data.startswith(_OLE):
            raise ImportFailed(
                f"has a password, or is in an older format: save it as {kind} without a password"
            )
        self._broken = (
            f"is not a readable {kind} file: it is damaged, or was cut short; save it again"
        )
        self._xml = xml
        with self._errors():
            self._archive = ZipFile(BytesIO(data))
            self._parts = {
                part.filename.replace("\\", "/").lstrip("/"): part
                for part in self._archive.infolist()
            }
        self._check_sizes()
        checks = _XmlChecks(MAX_TOKENS if max_tokens is None else max_tokens)
        self._choices: dict[str, list[bool]] = {}
        """Whether office programs know the namespaces of each choice of a part."""
        for name in self._parts:
            if self._is_xml(name):
                self._choices[name] = checks.check(self.read(name))

    @property
    def names(self) -> Iterable[str]:
        """The names of all parts, in the order of the file."""
        return self._parts

    def read(self, name: str) -> bytes:
        """Return the content of a part, or b"" if it is missing. Raises ImportFailed."""
        part = self._parts.get(name)
        if part is None:
            return b""
        with self._errors():
            return self._archive.read(part)

    def parse(
        self, name: str, prefixes: Mapping[str, str], *, separator: str = ":"
    ) -> Element | None:
        """Return the root of an XML part, or None if it is missing or not XML.

        Names in the namespaces of ``prefixes`` become ``prefix:name``, or with another separator:
        ElementTree's paths reserve the colon. Of alternative content, that which office programs
        show remains. Raises ImportFailed.
        """
        content = self.read(name)
        if not content or not self._is_xml(name):
            return None
        try:
            root = fromstring(content)  # noqa: S314 - opening the archive refused document types
        except (ParseError, LookupError, ValueError) as error:  # also for an unknown encoding
            raise ImportFailed(self._broken) from error
        if choices := self._choices[name]:
            _choose(root, choices)
        names = _PrefixedNames(prefixes, separator)
        for element in root.iter():
            element.tag = names[element.tag]
            if element.attrib:
                element.attrib = {names[key]: value for key, value in element.attrib.items()}
        return root

    def _is_xml(self, name: str) -> bool:
        return any(fnmatchcase(name.lower(), pattern) for pattern in self._xml)

    def _check_sizes(self) -> None:
        """Check the declared sizes of the parts; ``ZipFile`` unpacks no more than those."""
        sizes = {name: part.file_size for name, part in self._parts.items()}
        xml = sum(size for name, size in sizes.items() if self._is_xml(name))
        size = sum(sizes.values())
        if len(sizes) > MAX_PARTS or xml > MAX_XML_BYTES or size > MAX_BYTES:
            raise ImportFailed(
                f"unpacks to {len(sizes)} parts of {size} bytes, {xml} of them XML; the limits are "
                f"{MAX_PARTS}, {MAX_BYTES} and {MAX_XML_BYTES}: cut it into parts"
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the errors of ``ZipFile`` to ImportFailed."""
        try:
            yield
        except (BadZipFile, LargeZipFile, zlib.error, EOFError, ValueError, OSError) as error:
            raise ImportFailed(self._broken) from error
        except (NotImplementedError, RuntimeError) as error:  # unknown compression, or a password
            raise ImportFailed(
                "is packed with a password or an unusual compression: save it again without them"
            ) from error


def _choose(root: Element, choices: Iterable[bool]) -> None:
    """Replace alternative content by its first known choice, or by the fallback."""
    for choice, is_known in zip(root.iter(_CHOICE), choices, strict=True):
        if not is_known:
            choice.tag = ""
    for parent in list(root.iter()):
        if any(child.tag == _ALTERNATIVES for child in parent):
            parent[:] = list(_chosen(parent))


def _chosen(parent: Element) -> Iterator[Element]:
    for child in parent:
        if child.tag == _ALTERNATIVES:
            forms = (it for tag in (_CHOICE, _FALLBACK) for it in child if it.tag == tag)
            yield from _chosen(next(forms, Element("")))
        else:
            yield child


class _PrefixedNames(dict[str, str]):
    """Names as ElementTree has them, ``{namespace}name``, to ``prefix:name``."""

    def __init__(self, prefixes: Mapping[str, str], separator: str) -> None:
        super().__init__()
        self._separator = separator
        self._prefixes = prefixes

    def __missing__(self, name: str) -> str:
        space, found, local = name[1:].partition("}")
        prefix = self._prefixes.get(space) if found else None
        self[name] = name if prefix is None else f"{prefix}{self._separator}{local}"
        return self[name]


class _XmlChecks:
    """Counts the elements and attributes of XML parts, and limits their depth.

    It sees the prefixes of namespaces, which ElementTree forgets.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._tokens = 0
        self._depth = 0
        self._spaces: dict[str, list[str]] = {}
        self._choices: list[bool] = []

    def check(self, content: bytes) -> list[bool]:
        """Check a part up to its first malformed byte. Raises ImportFailed.

        Returns whether office programs know the namespaces of each choice between alternatives.
        """
        self._depth = 0
        self._spaces, self._choices = {}, []
        parser = ParserCreate(namespace_separator="}")
        parser.StartDoctypeDeclHandler = self._refuse_document_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartNamespaceDeclHandler = self._start_prefix
        parser.EndNamespaceDeclHandler = self._end_prefix
        with suppress(ExpatError, LookupError, ValueError):  # an error only where it is parsed
            parser.Parse(content, True)
        return self._choices

    def _refuse_document_type(self, *_: object) -> None:
        raise ImportFailed(
            "has an XML part with a document type or entities, which office programs never "
            "write: save it again in one"
        )

    def _start_prefix(self, prefix: str | None, space: str | None) -> None:
        self._spaces.setdefault(prefix or "", []).append(space or "")

    def _end_prefix(self, prefix: str | None) -> None:
        self._spaces[prefix or ""].pop()

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == _CHOICE[1:]:
            prefixes = attributes.get("Requires", "").split()
            spaces = (self._spaces.get(it) or [""] for it in prefixes)
            is_known = all(it[-1].startswith(_OFFICE_NAMES) for it in spaces)
            self._choices.append(is_known and bool(prefixes))
        self._tokens += 1 + len(attributes)
        self._depth += 1
        if self._tokens > self._max_tokens:
            raise ImportFailed(
                f"has more than {self._max_tokens} elements and attributes: cut it into parts"
            )
        if self._depth > MAX_DEPTH:
            raise ImportFailed(TOO_DEEP)

    def _end(self, _: str) -> None:
        self._depth -= 1
