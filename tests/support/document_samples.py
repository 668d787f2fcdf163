"""Files of ``tests/data/documents``, made by hand, without copied content and personal data."""

from tests.support.source_files import ROOT


def sample(name: str) -> bytes:
    """Return the content of a file."""
    return (ROOT / "tests/data/documents" / name).read_bytes()
