"""Errors that are kept after they were caught."""

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def without_frames(error: E) -> E:
    """Return ``error`` without its traceback; the errors that it followed lose theirs, too.

    Required where an error is kept: in an outcome, a variable, a future. A traceback refers to the
    frames that the error passed, and so to their arguments and results. Often one of these frames
    refers to the error, and nothing is freed before the next full garbage collection: five refused
    results of 600,000 keys held 641 MB. Libraries keep errors as well, such as aiohttp that of a
    torn body, so all errors of the chain are separated from each other.
    """
    behind: list[BaseException | None] = [error]
    while behind:
        found = behind.pop()
        if found is not None:
            behind += (found.__cause__, found.__context__)
            found.__traceback__ = found.__cause__ = found.__context__ = None
    return error
