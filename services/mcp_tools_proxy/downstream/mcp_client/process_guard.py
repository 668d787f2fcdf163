"""Guard that starts a stdio server and leaves none of its processes behind.

Usage: ``process_guard.py PARENT SANDBOX COMMAND ARG…``. SANDBOX is the JSON of the arguments of
``confine_server``, or empty for no sandbox. It runs as a separate program, isolated and without
site-packages.

On Linux it stays, as the parent of the server and of every process that the server leaves behind,
even in another session. When the server ends, when END_ALL arrives, or when the gateway dies, it
kills all of them and ends with the server's status. On other systems it is replaced by the server,
under the same process id. Its exit code is that of a shell if the command does not exist or cannot
be started.
"""

import os
import signal
import sys
from contextlib import suppress

STAYS = sys.platform == "linux"
"""Whether the guard stays and ends the others; if not, signals go to their group."""

END_ALL = signal.SIGUSR1
"""Makes the guard kill everything at once.

SIGTERM is forwarded to the server and its process group, which can clean up.
"""

COMMAND_NOT_FOUND = 127
CANNOT_START = 126
CANNOT_CONFINE = 125

_PACKAGES = os.path.abspath(__file__).rsplit("/mcp_tools_proxy/", 1)[0]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(parent: int, sandbox: str, command: list[str]) -> int:
    """Run ``command`` for the process ``parent``, confined by ``sandbox``; return its exit code."""
    _close_inherited()
    # Python ignores both signals, and exec would pass that on to the server
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if STAYS:
        _unset_own_locale()
        return _supervise(parent, sandbox, command)
    return _become(sandbox, command)


def _supervise(parent: int, sandbox: str, command: list[str]) -> int:
    """Run ``command`` as a child; after its end, or at END_ALL, kill all remaining processes."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    waited = {signal.SIGCHLD, signal.SIGTERM, END_ALL}
    blocked = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, END_ALL)
    if os.getppid() != parent:
        return 1  # the gateway died before PDEATHSIG was set
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
        os._exit(_become(sandbox, command))
    _release_pipes()
    status = _wait_for_end(server, waited)
    return _end_as(_end_all(server, status))


def _wait_for_end(server: int, waited: set[signal.Signals]) -> int | None:
    """Wait until the server ends or END_ALL arrives; return the server's status if it has ended."""
    status, is_ending = None, False
    while status is None:
        match signal.sigwait(waited):
            case signal.SIGCHLD:
                status = _reap(server)
            case signal.SIGTERM:
                _forward_signal(server, signal.SIGTERM)
                is_ending = True
            case _:
                return None
    if is_ending:
        _wait_for_children(waited)
    return status


def _wait_for_children(waited: set[signal.Signals]) -> None:
    """Wait until the processes that got SIGTERM have ended, or END_ALL arrives.

    A shell ends at once; the installer that it started needs a moment to clean up.
    """
    with suppress(ChildProcessError):  # all have ended
        while True:
            if not os.waitpid(-1, os.WNOHANG)[0] and signal.sigwait(waited) == END_ALL:
                return


def _become(sandbox: str, command: list[str]) -> int:
    """Replace this process by ``command``; return an exit code only if that fails."""
    if sandbox and not _confine(sandbox, command[0]):
        return CANNOT_CONFINE
    try:
        os.execvp(command[0], command)  # noqa: S606 - intentionally without a shell
    except (FileNotFoundError, NotADirectoryError):
        return COMMAND_NOT_FOUND
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{getattr(error, 'strerror', None) or error}\n")
        return CANNOT_START


def _confine(sandbox: str, command: str) -> bool:
    """Confine this process, which has one thread; return whether that was completely possible."""
    import json  # noqa: PLC0415 - used here only

    sys.path.append(_PACKAGES)  # only the gateway's package: -S leaves out all others
    try:
        from mcp_tools_proxy.system.confinement import confine_server  # noqa: PLC0415 - as above

        confine_server(command=command, **json.loads(sandbox))
    except Exception as error:  # noqa: BLE001 - after any failure the server must not start
        sys.stderr.write(f"the sandbox cannot be set up: {error}\n")
        return False
    return True


def _reap(server: int) -> int | None:
    status = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = ended[1] if ended[0] == server else status
    return status


def _forward_signal(server: int, number: signal.Signals) -> None:
    """Send a signal, blocked here, to the process group and to a server that left the group."""
    os.killpg(0, number)
    # remove the guard's copy: sigwait would return it, to be forwarded again without end
    signal.sigtimedwait({number}, 0)
    with suppress(OSError):  # the server may have changed its user
        if os.getpgid(server) != os.getpgrp():
            os.kill(server, number)


def _end_all(server: int, status: int | None) -> int:
    """Kill all descendants, and return the server's status.

    The children of an ended process become children of the guard, so killing the guard's children
    until none are left reaches all. No other process can have a child's id before the child is
    reaped.
    """
    with suppress(ChildProcessError):  # all have ended
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            for child in _children():
                with suppress(OSError):
                    os.kill(child, signal.SIGKILL)
            ended, how = os.waitpid(-1, 0)
            status = how if ended == server else status
    return status or 0


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            return [int(child) for child in children.read().split()]
    except OSError:  # a kernel without this file
        os.killpg(0, signal.SIGKILL)
        return []


def _end_as(status: int) -> int:
    """End by the signal that ended the server, or return its exit code."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    import resource  # noqa: PLC0415 - used here only

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no second core dump after the server's
    with suppress(OSError):  # for SIGKILL, which cannot have a handler
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    os.kill(os.getpid(), -code)
    return 128 - code


def _close_inherited() -> None:
    """Close inherited descriptors: a server gets its three pipes and nothing more."""
    for name in os.listdir("/proc/self/fd" if STAYS else "/dev/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the descriptor of the listed folder itself
                os.close(int(name))


def _release_pipes() -> None:
    """Replace the guard's copies of the pipes: while they are open, readers see no end of them."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1, 2):
        os.dup2(devnull, pipe)


def _prctl(option: int, value: int) -> None:
    import ctypes  # noqa: PLC0415 - slow to import, and used on Linux only

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _unset_own_locale() -> None:
    """Unset the LC_CTYPE that Python sets in the C locale (PEP 538), unless exec passed one."""
    with open("/proc/self/environ", "rb") as environ:  # passed by exec
        if not any(entry.startswith(b"LC_CTYPE=") for entry in environ.read().split(b"\0")):
            os.unsetenv("LC_CTYPE")


if __name__ == "__main__":
    os._exit(
        main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    )  # without cleanup: the gateway waits
