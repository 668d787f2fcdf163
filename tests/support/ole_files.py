"""Builds OLE files (old Office files, Outlook messages) of streams in storages."""

import struct
from collections.abc import Mapping

SECTOR = 512
SMALLEST = 0
"""The size from which streams are in whole sectors; with 4096, others would need a second table."""

_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
_STORAGE, _STREAM, _ROOT = 1, 2, 5

Storage = Mapping[str, "bytes | Storage"]


def ole_of(root: Storage) -> bytes:
    """Return an OLE file."""
    entries: list[list[int | str]] = [["Root Entry", _ROOT, _FREE, _FREE, 0]]
    sectors: list[bytes] = []
    chains: list[int] = []

    def add_stream(content: bytes) -> tuple[int, int]:
        if not content:
            return _END, 0
        first = len(sectors)
        padded = content.ljust(-(-len(content) // SECTOR) * SECTOR, b"\0")
        count = len(padded) // SECTOR
        sectors.extend(padded[at * SECTOR : (at + 1) * SECTOR] for at in range(count))
        chains.extend([*range(first + 1, first + count), _END])
        return first, len(content)

    def add_children(storage: Storage) -> int:
        """Add entries, each the right sibling of the one before; return the first."""
        first = previous = _FREE
        for name in sorted(storage, key=lambda it: (len(it), it.upper())):
            content = storage[name]
            number = len(entries)
            if isinstance(content, bytes):
                start, size = add_stream(content)
                entries.append([name, _STREAM, _FREE, _FREE, start, size])
            else:
                entries.append([name, _STORAGE, _FREE, _FREE, 0, 0])
                entries[number][3] = add_children(content)
            if first == _FREE:
                first = number
            else:
                entries[previous][2] = number
            previous = number
        return first

    entries[0] = ["Root Entry", _ROOT, _FREE, add_children(root), _END, 0]
    directory = b"".join(map(_entry, entries))
    directory_start = len(sectors)
    padded = directory.ljust(-(-len(directory) // SECTOR) * SECTOR, b"\0")
    count = len(padded) // SECTOR
    sectors.extend(padded[at * SECTOR : (at + 1) * SECTOR] for at in range(count))
    chains.extend([*range(directory_start + 1, directory_start + count), _END])
    fat_count = 1
    while (len(chains) + fat_count) * 4 > fat_count * SECTOR:
        fat_count += 1
    fat_start = len(sectors)
    table = [*chains, *[_FAT] * fat_count]
    table += [_FREE] * (fat_count * SECTOR // 4 - len(table))
    fat = [*range(fat_start, fat_start + fat_count)]
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        *(0x3E, 3, 0xFFFE, 9, 6),
        *(0, fat_count, directory_start, 0, SMALLEST, _END, 0, _END, 0),
    )
    header += struct.pack("<109I", *fat, *[_FREE] * (109 - fat_count))
    return header + b"".join(sectors) + struct.pack(f"<{len(table)}I", *table)


def _entry(entry: list[int | str]) -> bytes:
    name, kind, right, child, start, size = entry
    spelled = f"{name}\0".encode("utf-16-le")
    return struct.pack(
        "<64sHBBIII36xIQ", spelled, len(spelled), kind, 1, _FREE, right, child, start, size
    )
