"""Linux system calls missing from the standard library, by ctypes, including a seccomp filter."""

import ctypes
import errno
import os
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

_CAPABILITY_VERSION = 0x20080522
_UNDOING = (
    *(9, 12, 13),  # linux_immutable, net_admin, net_raw
    *(16, 17, 18, 19),  # sys_module, sys_rawio, sys_chroot, sys_ptrace
    *(21, 22, 23, 24, 25, 27),  # sys_admin, sys_boot, sys_nice, sys_resource, sys_time, mknod
    *(32, 33, 34, 38, 39, 40),  # mac_override, mac_admin, syslog, perfmon, bpf, checkpoint_restore
)
"""Capabilities that let root undo the confinement."""


@cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def failure() -> OSError:
    """Build the OSError of the last failed system call."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def prctl(option: int, value: int, pointer: object = None) -> None:
    """Call prctl. Raises OSError."""
    values = (ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if libc().prctl(option, *values) == -1:
        raise failure()


def hide_memory() -> None:
    """Close /proc/PID/environ, mem and fd of this process to other processes of its user.

    Only root can read them and attach a debugger. No core dumps are written. Programs started by
    this process are dumpable again. No effect except on Linux.
    """
    if sys.platform == "linux":
        prctl(_PR_SET_DUMPABLE, 0)


def end_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def forbid_new_privileges() -> None:
    """Prevent setuid programs from gaining privileges."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop root's capabilities that could undo the confinement."""
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    current = ctypes.create_string_buffer(24)
    if libc().capget(header, current) == -1:
        raise failure()
    words = list(struct.unpack("6I", current.raw))
    for capability in _UNDOING:
        word, bit = divmod(capability, 32)
        for kind in range(3):  # effective, permitted, inheritable
            words[3 * word + kind] &= ~(1 << bit)
    if libc().capset(header, struct.pack("6I", *words)) == -1:
        raise failure()


_ARCHITECTURES: Mapping[str, tuple[int, int]] = {
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
}
"""The kernel's number of an architecture, and its column in ``_NUMBERS``."""

_NUMBERS: Mapping[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "kill": (62, 129),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "ptrace": (101, 117),
    "rt_sigqueueinfo": (129, 138),
    "utime": (132, None),
    "setpriority": (141, 140),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "tkill": (200, 130),
    "sched_setaffinity": (203, 122),
    "tgkill": (234, 131),
    "utimes": (235, None),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ioprio_set": (251, 30),
    "fchownat": (260, 54),
    "futimesat": (261, None),
    "fchmodat": (268, 53),
    "utimensat": (280, 88),
    "rt_tgsigqueueinfo": (297, 240),
    "perf_event_open": (298, 241),
    "prlimit64": (302, 261),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "sched_setattr": (314, 274),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "userfaultfd": (323, 282),
    "pidfd_send_signal": (424, 424),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "clone3": (435, 435),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "fchmodat2": (452, 452),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}

_ARCH_OFFSET, _ARGUMENTS_OFFSET = 4, 16
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000
"""Set in the numbers of a second system call table that x86-64 kernels can have."""

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_CLONE_THREAD = 0x00010000
_TYPE_OF_SOCKET = 0xF
_SOCK_STREAM = 1
_AF_UNIX = 1

Rule = tuple[str, int, tuple[int, int, int] | None]
"""A call, its error, and the allowed argument, if any: index, mask, value."""


def _denied(*calls: str) -> tuple[Rule, ...]:
    return tuple((call, errno.EPERM, None) for call in calls)


OTHER_PROCESSES: Sequence[Rule] = (
    *_denied("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp"),
    *_denied("pidfd_getfd", "perf_event_open", "bpf", "userfaultfd", "open_by_handle_at"),
    *_denied("add_key", "request_key", "keyctl"),
    *_denied("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
    # io_uring opens sockets without the call socket; with ENOSYS, libraries do not use it
    *((f"io_uring_{call}", errno.ENOSYS, None) for call in ("setup", "enter", "register")),
    # only for the process itself: 0 is the caller, and its group for the last two
    *(
        (call, errno.EPERM, (0, 0xFFFFFFFF, 0))
        for call in (
            *("prlimit64", "sched_setaffinity"),
            *("sched_setscheduler", "sched_setparam", "sched_setattr"),
        )
    ),
    *((call, errno.EPERM, (1, 0xFFFFFFFF, 0)) for call in ("setpriority", "ioprio_set")),
    ("setpriority", errno.EPERM, (0, 2, 0)),  # 2 is all processes of the user
    ("ioprio_set", errno.EPERM, (0, 3, 1)),  # 1 is a process, 3 all of the user
)
"""Memory, descriptors, keys, limits and priorities of other processes, and bypasses of the
filter.
"""

FILE_ATTRIBUTES: Sequence[Rule] = (
    *_denied("chmod", "fchmod", "fchmodat", "fchmodat2", "file_setattr"),
    *_denied("chown", "fchown", "lchown", "fchownat"),
    *_denied("utime", "utimes", "futimesat", "utimensat"),
    *_denied("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *_denied("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)
"""Mode, owner, times and attributes of files, which Landlock does not restrict."""

NETWORK: Sequence[Rule] = (
    # also local sockets: Docker and D-Bus start programs outside of the sandbox
    ("socket", errno.EACCES, None),
    # pairs of another type can send to any socket with a path
    ("socketpair", errno.EACCES, (1, _TYPE_OF_SOCKET, _SOCK_STREAM)),
    ("socketpair", errno.EACCES, (0, 0xFFFFFFFF, _AF_UNIX)),  # other families load kernel modules
)

AFFINITY: Sequence[Rule] = _denied("sched_setaffinity")

NEW_PROCESSES: Sequence[Rule] = (
    *_denied("fork", "vfork", "execve", "execveat"),
    ("clone", errno.EPERM, (0, _CLONE_THREAD, _CLONE_THREAD)),
    ("clone3", errno.ENOSYS, None),  # libraries fall back to clone, whose flags are visible here
)


def signals_of(pid: int) -> Sequence[Rule]:
    """Return rules that allow a process with one thread group to send signals only to itself.

    Landlock supports this since Linux 6.12.
    """
    calls = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")
    own = tuple((call, errno.EPERM, (0, 0xFFFFFFFF, pid)) for call in calls)
    return (*own, *_denied("tkill", "pidfd_send_signal"))


def is_supported() -> bool:
    """Return whether filters for this architecture are supported."""
    return (
        sys.platform == "linux"
        and os.uname().machine in _ARCHITECTURES
        and sys.maxsize > 2**32  # 32-bit programs on a 64-bit kernel make other calls
        and os.path.exists("/proc/sys/kernel/seccomp/actions_avail")
    )


def deny_calls(rules: Sequence[Rule]) -> None:
    """Deny system calls to this process and its descendants. Raises OSError.

    Needs ``forbid_new_privileges``. A call of another architecture ends the process.
    """
    program = b"".join(_program(rules))
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HP", len(program) // 8, ctypes.addressof(code))
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(filter_, len(filter_)))


def _program(rules: Sequence[Rule]) -> list[bytes]:
    """Return the instructions of a filter."""
    architecture, column = _ARCHITECTURES[os.uname().machine]
    program = [
        _step(_LOAD, _ARCH_OFFSET),
        _step(_EQUAL, architecture, when_true=1),
        _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, 0),
        _step(_AT_LEAST, _X32, when_false=1),
        _step(_RETURN, _KILL_PROCESS),
    ]
    for call, error, allowed in rules:
        number = _NUMBERS[call][column]
        if number is not None:
            program += _steps(number, _step(_RETURN, _ERRNO | error), allowed)
    return [*program, _step(_RETURN, _ALLOW)]


def _steps(number: int, deny: bytes, allowed: tuple[int, int, int] | None) -> list[bytes]:
    """Return the instructions of one rule; the call's number is loaded before and after."""
    if allowed is None:
        return [_step(_EQUAL, number, when_false=1), deny]
    index, mask, value = allowed
    return [
        _step(_EQUAL, number, when_false=5),
        _step(_LOAD, _ARGUMENTS_OFFSET + 8 * index),
        _step(_AND, mask),
        _step(_EQUAL, value, when_true=1),
        deny,
        _step(_LOAD, 0),
    ]


def _step(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)
