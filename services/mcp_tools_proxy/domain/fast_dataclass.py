"""``dataclass`` for the values that every call builds: frozen for mypy, not at run time.

The constructor of a frozen dataclass sets each field by ``object.__setattr__``, which takes five
times as long: 10 µs of a call, a twentieth. mypy refuses an assignment to a field all the same.
"""

import dataclasses
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, eq=True, **options):
        """Return a class decorator; a ``frozen`` class has a hash, as a really frozen one."""
        return dataclasses.dataclass(eq=eq, unsafe_hash=frozen and eq, **options)
