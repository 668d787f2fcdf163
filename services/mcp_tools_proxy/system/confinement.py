"""Confines the calling process irreversibly."""

import os
import resource
import sys
from collections.abc import Iterable, Sequence

SYSTEM_PATHS = (
    *("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/os-release"),
    *("/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/gai.conf", "/etc/services"),
    *("/etc/protocols", "/etc/mime.types", "/etc/fonts", "/run/systemd/resolve"),
    # /etc/ssl and /etc/pki also contain private keys
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/etc/ca-certificates"),
    *("/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust"),
    # only information about the whole machine, not about other processes
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys", "/proc/version"),
    *("/proc/filesystems", "/proc/loadavg", "/proc/uptime"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage"),
)
"""Programs, libraries and machine information that nearly every program reads."""

LIBRARY_PATHS = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib32", "/lib64"),
    *("/usr/share/zoneinfo", "/usr/share/fonts", "/etc/fonts", "/etc/localtime"),
    *("/etc/ld.so.cache", "/dev/null", "/dev/random", "/dev/urandom", "/sys/devices/system/cpu"),
)
"""Files read by processes that only run libraries."""


def missing_for(*, read: bool = False, write: bool = False, calls: bool = False) -> str | None:
    """Return what this machine lacks to restrict reading, writing or system calls; otherwise None.

    Restricting processors and memory also requires restricted system calls.
    """
    if sys.platform != "linux":
        return "Linux"
    from mcp_tools_proxy.system import landlock, system_calls  # noqa: PLC0415 - Linux only

    version = landlock.abi() if read or write else 0
    if read and not version:
        return "Landlock, which Linux has since 5.13: it is missing or off in this kernel"
    if write and version < landlock.WRITE_ABI:
        return (
            f"version {landlock.WRITE_ABI} of Landlock, which Linux has since 6.2: this kernel has "
            + (f"version {version}" if version else "none, or it is off")
        )
    if (calls or read or write) and not system_calls.is_supported():
        return "seccomp, on x86-64 or aarch64"
    return None


def confine_server(
    *,
    command: str,
    network: bool = True,
    read: Sequence[str] | None = None,
    write: Sequence[str] | None = None,
    memory: int | None = None,
    cpu: int | None = None,
) -> None:
    """Confine this process before it becomes ``command``; None is unrestricted. Raises OSError.

    With ``read``, the command's program, system libraries and writable paths are also readable.
    """
    lack = missing_for(
        read=read is not None, write=write is not None, calls=not network or cpu is not None
    )
    if lack is not None:
        raise OSError(f"this machine lacks {lack}")
    if network and all(it is None for it in (read, write, memory, cpu)):
        return
    from mcp_tools_proxy.system import system_calls  # noqa: PLC0415 - Linux only

    _limit(memory, cpu)
    system_calls.drop_capabilities()
    system_calls.forbid_new_privileges()
    rules = () if cpu is None else system_calls.AFFINITY
    if not network or read is not None or write is not None:
        _close_files(read, write, SYSTEM_PATHS, programs=_program(command))
        rules = (*rules, *system_calls.OTHER_PROCESSES, *(() if network else system_calls.NETWORK))
    if write is not None and not write:
        rules = (*rules, *system_calls.FILE_ATTRIBUTES)
    if rules:
        system_calls.deny_calls(rules)


def confine_parser(read: Iterable[str]) -> None:
    """Confine a process that handles untrusted data: no network and no new processes.

    Other processes of its user cannot read its memory, and it can send signals only to itself. It
    can read system libraries, Python and ``read``, and write no file. Unsupported restrictions
    (``missing_for``) are skipped. Raises OSError.
    """
    if sys.platform != "linux":
        return
    from mcp_tools_proxy.system import system_calls  # noqa: PLC0415 - Linux only

    system_calls.drop_capabilities()
    system_calls.forbid_new_privileges()
    own = os.path.dirname(os.path.dirname(__file__))
    python = (*sys.path, f"{sys.base_prefix}/lib", own)
    _close_files([], [], [*LIBRARY_PATHS, *python, *read])
    if system_calls.is_supported():
        rules = (*system_calls.OTHER_PROCESSES, *system_calls.NETWORK, *system_calls.NEW_PROCESSES)
        signals = system_calls.signals_of(os.getpid())
        system_calls.deny_calls((*rules, *system_calls.FILE_ATTRIBUTES, *signals))
    system_calls.hide_memory()


def _close_files(
    read: Sequence[str] | None,
    write: Iterable[str] | None,
    optional: Sequence[str],
    programs: Sequence[str] = (),
) -> None:
    from mcp_tools_proxy.system import landlock  # noqa: PLC0415 - Linux only

    if landlock.abi():
        landlock.restrict_files(read, write, optional=optional, programs=programs)


def _limit(memory: int | None, cpu: int | None) -> None:
    """Limit memory, and the processors to ``cpu`` adjacent ones that depend on the process id."""
    if memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if cpu is not None:
        allowed = sorted(os.sched_getaffinity(0))
        first = os.getpid() % len(allowed)
        os.sched_setaffinity(0, (allowed + allowed)[first : first + cpu])


def _program(command: str) -> Sequence[str]:
    """Return the file of a command as found by exec; empty if it is missing."""
    if "/" in command:
        return [command]
    paths = (os.path.join(folder, command) for folder in os.get_exec_path())
    return [path for path in paths if os.access(path, os.X_OK)][:1]
