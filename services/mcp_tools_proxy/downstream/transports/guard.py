"""Starts a stdio server so that it cannot outlive the gateway: ``guard.py PARENT COMMAND ARG…``.

Run as a program of its own, isolated and without site-packages; it becomes the server, under the
same process id. Exits as a shell would when there is no such command, or it cannot be started.
"""

import os
import signal
import sys

COMMAND_NOT_FOUND = 127
CANNOT_START = 126

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> int:
    """Become ``command``, killed when ``parent`` dies (Linux)."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - takes time, and is of no use elsewhere

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            return 1  # it died before it could be watched
        _forget_own_locale()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores both, and exec would keep that
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - that there is no shell is the point
    except (FileNotFoundError, NotADirectoryError):
        return COMMAND_NOT_FOUND
    except (OSError, ValueError):
        return CANNOT_START


def _forget_own_locale() -> None:
    """Unset the LC_CTYPE that Python sets where the locale is C (PEP 538), unless it was given."""
    with open("/proc/self/environ", "rb") as given:  # as it was when the process started
        if not any(entry.startswith(b"LC_CTYPE=") for entry in given.read().split(b"\0")):
            os.unsetenv("LC_CTYPE")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
