"""``dataclass`` with cheap calls and a cheap start: frozen for mypy, mutable at run time.

A frozen constructor calls ``object.__setattr__`` for each field, which takes five times as long: 10
µs of a call, a twentieth. mypy still refuses assignments. ``dataclasses`` also compiles up to six
methods for each class: without those that freeze and print it, a start takes 8 % less CPU.
"""

import dataclasses
from reprlib import recursive_repr
from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen=False, eq=True, repr=True, **options):
        """Return a class decorator; a ``frozen`` class has a hash, like a real frozen dataclass."""
        complete = dataclasses.dataclass(eq=eq, unsafe_hash=frozen and eq, repr=False, **options)

        def decorate(cls):
            if repr and "__repr__" not in cls.__dict__:
                cls.__repr__ = _repr
            return complete(cls)

        return decorate

    @recursive_repr()
    def _repr(self):
        shown = [
            f"{it.name}={getattr(self, it.name)!r}" for it in dataclasses.fields(self) if it.repr
        ]
        return f"{type(self).__qualname__}({', '.join(shown)})"
