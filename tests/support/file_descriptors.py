"""A process without free descriptors, like one with the maximum number of connections."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def none_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
