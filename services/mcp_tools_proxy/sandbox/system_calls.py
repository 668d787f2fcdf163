"""System calls of Linux that the standard library does not offer, by ctypes."""

import ctypes
import os
import struct
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38

_CAPABILITY_VERSION = 0x20080522
_UNDOING = (
    *(9, 12, 13),  # linux_immutable, net_admin, net_raw
    *(16, 17, 18, 19),  # sys_module, sys_rawio, sys_chroot, sys_ptrace
    *(21, 22, 23, 24, 25, 27),  # sys_admin, sys_boot, sys_nice, sys_resource, sys_time, mknod
    *(32, 33, 34, 38, 39, 40),  # mac_override, mac_admin, syslog, perfmon, bpf, checkpoint_restore
)
"""Capabilities with which root could undo its confinement."""


@cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def failure() -> OSError:
    """Build the error of the last system call that failed."""
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


def prctl(option: int, value: int, pointer: object = None) -> None:
    """Call prctl. Raises OSError."""
    values = (ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if libc().prctl(option, *values) == -1:
        raise failure()


def hide_memory() -> None:
    """Close /proc/PID/environ, mem and fd of this process to others of its user.

    Only root can read them, and attach a debugger. The system writes no core dump. A program that
    this one starts is dumpable again. Other systems than Linux do nothing.
    """
    if sys.platform == "linux":
        prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Forbid setuid programs to gain privileges that this process lacks."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop the capabilities of root with which a process could undo its confinement."""
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
