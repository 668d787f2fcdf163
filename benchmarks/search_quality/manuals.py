"""The manuals: their Debian packages, and how their pages are read."""

import gzip
import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_tools_proxy.documents.importers.base import ImportOptions
from mcp_tools_proxy.documents.importers.pdf import import_pdf
from mcp_tools_proxy.domain.document import Document


@dataclass(frozen=True, slots=True)
class Manual:
    """A PDF in a Debian package; the questions refer to the pages of ``version``."""

    package: str
    version: str
    path: str


_DOC = "usr/share/doc"
_INSTALL = ("installation-guide-amd64", "20230508+deb12u1")
_SLIDES = ("packaging-tutorial", "0.29")


def _install(language: str) -> Manual:
    return Manual(*_INSTALL, f"{_DOC}/{_INSTALL[0]}/{language}/install.{language}.pdf.gz")


def _faq(language: str) -> Manual:
    path = f"{_DOC}/debian/FAQ/debian-faq.{language}.pdf.gz"
    return Manual(f"debian-faq-{language}", "11.1", path)


def _reference(language: str) -> Manual:
    path = f"usr/share/debian-reference/debian-reference.{language}.pdf"
    return Manual(f"debian-reference-{language}", "2.100", path)


def _maint(language: str) -> Manual:
    package = f"maint-guide-{language}"
    return Manual(package, "1.2.53", f"{_DOC}/{package}/maint-guide.{language}.pdf")


MANUALS: Mapping[str, Manual] = {
    "gnuplot-en": Manual("gnuplot-doc", "5.4.4+dfsg1-2", f"{_DOC}/gnuplot/gnuplot.pdf"),
    "bash-en": Manual("bash-doc", "5.2.15-2", f"{_DOC}/bash/bashref.pdf"),
    "slides-en": Manual(*_SLIDES, f"{_DOC}/packaging-tutorial/packaging-tutorial.pdf"),
    "policy-en": Manual("debian-policy", "4.6.2.0", f"{_DOC}/debian-policy/policy.pdf.gz"),
    "reference-de": _reference("de"),
    "developers-de": Manual(
        "developers-reference-de",
        "12.18",
        "usr/share/developers-reference/de/developers-reference.pdf",
    ),
    "install-ru": _install("ru"),
    "faq-ru": _faq("ru"),
    "maint-fr": _maint("fr"),
    "install-fr": _install("fr"),
    "reference-es": _reference("es"),
    "faq-it": _faq("it"),
    "slides-pt": Manual(*_SLIDES, f"{_DOC}/packaging-tutorial/packaging-tutorial.pt.pdf"),
    "faq-pt": _faq("pt"),
    "install-nl": _install("nl"),
    "install-sv": _install("sv"),
    "reference-zh": _reference("zh-cn"),
    "maint-zh": _maint("zh-cn"),
    "install-ja": _install("ja"),
    "install-ko": _install("ko"),
}


def language_of(key: str) -> str:
    """Return the language of a manual, the suffix of its key."""
    return key.rpartition("-")[2]


def read_manual(key: str, cache: Path) -> Document:
    """Return an imported manual from ``cache``, or from its package."""
    kept = cache / f"{key}.json"
    if not kept.exists():
        pages = _fetch(key, MANUALS[key]).pages
        cache.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(pages, ensure_ascii=False), encoding="utf-8")
    texts: list[str] = json.loads(kept.read_text(encoding="utf-8"))
    return Document(tenant_id="bench", doc_id=key, title=key, pages=tuple(texts))


def _fetch(key: str, manual: Manual) -> Document:
    """Download a package with apt-get, and import its PDF."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{manual.package}={manual.version}"
        subprocess.run(["apt-get", "download", "-q", wanted], cwd=folder, check=True)  # noqa: S603, S607 - our own table
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), folder], check=True)  # noqa: S603, S607 - the same
        data = (Path(folder) / manual.path).read_bytes()
    if manual.path.endswith(".gz"):
        data = gzip.decompress(data)
    return import_pdf(data, ImportOptions(tenant_id="bench", doc_id=key, stem=key))
