"""Builds OLE files (old Office files, Outlook messages) of streams in storages."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SECTOR, SMALL_SECTOR, SMALLEST = 512, 64, 4096
"""Streams below SMALLEST bytes are in small sectors of one common stream."""

_FREE, _END, _TABLE = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_STORAGE, _STREAM, _ROOT = 1, 2, 5

Storage = Mapping[str, "bytes | Storage"]


def ole_of(root: Storage) -> bytes:
    """Return an OLE file."""
    return _Writer().file(root)


@dataclass
class _Sectors:
    """Sectors of one size, and the number of the sector that follows each."""

    size: int
    content: bytearray = field(default_factory=bytearray)
    chain: list[int] = field(default_factory=list)

    def add(self, content: bytes) -> int:
        """Add a stream; return its first sector."""
        if not content:
            return _END
        first = len(self.chain)
        count = -(-len(content) // self.size)
        self.content += content.ljust(count * self.size, b"\0")
        self.chain += [*range(first + 1, first + count), _END]
        return first


class _Writer:
    def __init__(self) -> None:
        self._sectors = _Sectors(SECTOR)
        self._small = _Sectors(SMALL_SECTOR)
        self._entries: list[bytes] = [b""]

    def file(self, root: Storage) -> bytes:
        child = self._add_children(root)
        small = bytes(self._small.content)
        self._entries[0] = _entry(
            "Root Entry", _ROOT, child=child, start=self._sectors.add(small), size=len(small)
        )
        directory = self._sectors.add(b"".join(self._entries))
        small_table = self._sectors.add(_numbers(self._small.chain))
        tables = 1
        while (len(self._sectors.chain) + tables) * 4 > tables * SECTOR:
            tables += 1
        first = len(self._sectors.chain)
        chain = [*self._sectors.chain, *[_TABLE] * tables]
        places = [*range(first, first + tables)]
        header = struct.pack(
            "<8s16xHHHHH6xIIIIIIIII",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            *(0x3E, 3, 0xFFFE, 9, 6, 0, tables, directory, 0, SMALLEST),
            *(small_table, -(-len(self._small.chain) * 4 // SECTOR), _END, 0),
        )
        header += _numbers([*places, *[_FREE] * (109 - tables)])
        return header + bytes(self._sectors.content) + _numbers(chain, tables * SECTOR)

    def _add_children(self, storage: Storage) -> int:
        """Add entries, each the right sibling of the one before; return the first."""
        names = sorted(storage, key=lambda it: (len(it), it.upper()))
        numbers = []
        for _ in names:
            numbers.append(len(self._entries))
            self._entries.append(b"")
        for name, number, right in zip(names, numbers, [*numbers[1:], _FREE], strict=False):
            content = storage[name]
            if isinstance(content, bytes):
                sectors = self._small if len(content) < SMALLEST else self._sectors
                start = sectors.add(content)
                entry = _entry(name, _STREAM, right=right, start=start, size=len(content))
            else:
                entry = _entry(name, _STORAGE, right=right, child=self._add_children(content))
            self._entries[number] = entry
        return numbers[0] if numbers else _FREE


def _numbers(numbers: Sequence[int], size: int = 0) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers).ljust(size, b"\xff")


def _entry(
    name: str, kind: int, *, right: int = _FREE, child: int = _FREE, start: int = 0, size: int = 0
) -> bytes:
    spelled = f"{name}\0".encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII36xIQ", spelled, len(spelled), kind, 1, _FREE, right, child, start, size
    )
