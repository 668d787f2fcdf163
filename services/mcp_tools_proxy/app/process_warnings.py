"""Warns of a user or a kernel with which the processes of the gateway are not kept apart."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from mcp_tools_proxy.sandbox.confinement import missing_for

_MARKS = ("/.dockerenv", "/run/.containerenv")
_IN_KUBERNETES = "KUBERNETES_SERVICE_HOST"

AS_ROOT = (
    "the gateway runs as root in a container, so every server that it starts can read its keys; "
    "run it as another user, such as 10001, as the image does"
)


def process_warnings(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what this machine and this user cannot keep apart, for the start of the service."""
    if os.geteuid() == 0 and _is_container(environment):
        yield AS_ROOT
    yield from confinement_warnings()


def confinement_warnings() -> Iterator[str]:
    """Yield what this machine cannot confine; without the user, who may be another in service."""
    lack = missing_for(read=True, write=True, calls=True)
    if lack is not None:
        yield (
            "imports, page rendering and long argument checks are not fully confined: data that "
            "takes over such a process may read files or use the network. Confinement needs "
            f"{lack}"
        )


def _is_container(environment: Mapping[str, str]) -> bool:
    return _IN_KUBERNETES in environment or any(Path(mark).exists() for mark in _MARKS)
