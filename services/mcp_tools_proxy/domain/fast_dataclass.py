"""``dataclass`` for values that every call builds: frozen for mypy, mutable at run time.

A frozen constructor calls ``object.__setattr__`` for each field, which takes five times as long: 10
µs of a call, a twentieth. mypy still refuses assignments.
"""

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, eq=True, **options):
        """Return a class decorator; a ``frozen`` class has a hash, like a real frozen dataclass."""
        return dataclasses.dataclass(eq=eq, unsafe_hash=frozen and eq, **options)
