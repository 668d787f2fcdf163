"""Starts a stdio server and leaves nothing of it behind: ``guard.py PARENT COMMAND ARG…``.

Run as a program of its own, isolated and without site-packages. On Linux it stays, as the parent of
the server and of every process that the server leaves behind, also in a session of its own: when
the server ends, when it is sent END_ALL, or when the gateway dies, it kills them all and ends as
the server did. Elsewhere it becomes the server, under the same process id. It exits as a shell
would when there is no such command, or it cannot be started.
"""

import os
import signal
import sys
from contextlib import suppress

STAYS = sys.platform == "linux"
"""Whether it is signalled itself, and looks after the others; else their process group is."""

END_ALL = signal.SIGUSR1
"""Tells it to kill everything at once. SIGTERM goes to the server and its process group."""

COMMAND_NOT_FOUND = 127
CANNOT_START = 126

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(parent: int, command: list[str]) -> int:
    """Run ``command`` for the process ``parent``, and return how it ended."""
    _close_inherited()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores both, and exec would keep that
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if STAYS:
        _unset_own_locale()
        return _supervise(parent, command)
    return _become(command)


def _supervise(parent: int, command: list[str]) -> int:
    """Run ``command`` as a child, and end all that is left once it ended, or is to end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    waited = {signal.SIGCHLD, signal.SIGTERM, END_ALL}
    blocked = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, END_ALL)
    if os.getppid() != parent:
        return 1  # it died before it could be watched
    guard = os.getpid()
    try:
        server = os.fork()
    except OSError:
        return CANNOT_START
    if not server:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os._exit(_become(command))
    _release_pipes()
    status = None
    while status is None:
        match signal.sigwait(waited):
            case signal.SIGCHLD:
                status = _reap(server)
            case signal.SIGTERM:
                _forward_signal(server, signal.SIGTERM)
            case _:
                break
    return _end_as(_end_all(server, status))


def _become(command: list[str]) -> int:
    """Become ``command``; return only if that cannot be."""
    try:
        os.execvp(command[0], command)  # noqa: S606 - that there is no shell is the point
    except (FileNotFoundError, NotADirectoryError):
        return COMMAND_NOT_FOUND
    except (OSError, ValueError):
        return CANNOT_START


def _reap(server: int) -> int | None:
    """Reap who has ended; return the server's status if it is among them."""
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == server else status
    return status


def _forward_signal(server: int, number: signal.Signals) -> None:
    """Send a signal to the process group, us blocking it, and to a server that left the group."""
    os.killpg(0, number)
    signal.sigtimedwait({number}, 0)  # our own: waited for, it would come again without an end
    with suppress(OSError):  # it may be another user by now
        if os.getpgid(server) != os.getpgrp():
            os.kill(server, number)


def _end_all(server: int, status: int | None) -> int:
    """Kill every process there is below, and return the server's status.

    Who ends leaves its children to us, so killing ours until there are none misses nobody. No other
    process can have the id of a child of ours before it is reaped.
    """
    with suppress(ChildProcessError):  # there are none any more
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            for child in _children():
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            ended, how = os.waitpid(-1, 0)
            status = how if ended == server else status
    return status or 0


def _children() -> list[int]:
    """Return the processes whose parent is this one."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return [int(child) for child in children.read().split()]
    except OSError:  # a kernel without it
        os.killpg(0, signal.SIGKILL)
        return []


def _end_as(status: int) -> int:
    """End by the signal that ended the server, or return its exit code."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    import resource  # noqa: PLC0415 - of use here only

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the server's may have been dumped
    with suppress(OSError):  # SIGKILL needs none
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)
    return 128 - code


def _close_inherited() -> None:
    """Close what the gateway, or who started it, left open: a server gets its three pipes."""
    for name in os.listdir("/proc/self/fd" if STAYS else "/dev/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the folder itself
                os.close(int(name))


def _release_pipes() -> None:
    """Leave the pipes to the server alone: else nobody would see that it closes one."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1, 2):
        os.dup2(devnull, pipe)


def _prctl(option: int, value: int) -> None:
    import ctypes  # noqa: PLC0415 - takes time, and is of no use elsewhere

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _unset_own_locale() -> None:
    """Unset the LC_CTYPE that Python sets where the locale is C (PEP 538), unless it was given."""
    with open("/proc/self/environ", "rb") as environ:  # as it was when the process started
        if not any(entry.startswith(b"LC_CTYPE=") for entry in environ.read().split(b"\0")):
            os.unsetenv("LC_CTYPE")


if __name__ == "__main__":
    os._exit(main(int(sys.argv[1]), sys.argv[2:]))  # at once: who waits wants to know why
