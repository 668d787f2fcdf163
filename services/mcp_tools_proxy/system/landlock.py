"""Restricts a process's access to files with Landlock."""

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress

from mcp_tools_proxy.system.system_calls import failure, libc

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_OPENAT2 = 437
"""Equal on all architectures."""

_CURRENT_FOLDER = -100
_NO_LINKS = 0x04

_AS_PATH = os.O_PATH | os.O_CLOEXEC

_VERSION_FLAG = 1
_PATH_BENEATH = 1
_SCOPES = 0b11
"""Abstract sockets and signals."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_CHANGE_ENTRIES = (1 << 13) - (1 << 4)
"""Remove, create and link: bits 4 to 12."""

_WRITE = _WRITE_FILE | _CHANGE_ENTRIES | _REFER | _TRUNCATE | _IOCTL_DEV
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICES = _MAKE_CHAR | _MAKE_BLOCK
"""Never allowed: root could create a device and read the whole disk."""

_SINCE = {_REFER: 2, _TRUNCATE: 3, _IOCTL_DEV: 5}
_SCOPE_ABI = 6
_NET_ABI = 4

WRITE_ABI = 3
"""First version that restricts writing; before it, any file could be truncated."""


def abi() -> int:
    """Return the Landlock version of the kernel; 0 if it is missing or off."""
    version: int = libc().syscall(
        ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)
    )
    return max(0, version)


def restrict_files(
    read: Iterable[str] | None,
    write: Iterable[str] | None,
    *,
    optional: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> None:
    """Allow reading only below ``read`` and writing only below ``write``; None is unrestricted.

    Writable paths are readable. No path may contain a symbolic link, because a process that writes
    there could have created it to read all files at its next start. ``optional`` are further
    readable paths, through links as well; missing ones are skipped. ``programs`` are read through
    links only if these resolve to an executable file. The process cannot trace others or read their
    memory and environment and, if the kernel supports it, cannot reach them by signals and abstract
    sockets. Needs ``forbid_new_privileges``. Raises OSError.
    """
    version = abi()
    known = ~sum(right for right, since in _SINCE.items() if version < since)
    handled = ((_READ if read is not None else 0) | (_WRITE if write is not None else 0)) & known
    ruleset = _create(handled, version)
    try:
        for path in read or ():
            _allow(ruleset, _opened_without_links(path), _READ & handled)
        for path in write or ():
            _allow(ruleset, _opened_without_links(path), handled & ~_DEVICES)
        for path in optional if read is not None else ():
            with suppress(OSError):
                _allow(ruleset, os.open(path, _AS_PATH), _READ & handled)
        for path in programs if read is not None else ():
            with suppress(OSError):
                _allow_program(ruleset, os.open(path, _AS_PATH), _READ & handled)
        if write is not None:
            with suppress(OSError):
                device = os.open(os.devnull, _AS_PATH)
                _allow(ruleset, device, (_READ | _WRITE_FILE | _TRUNCATE) & handled)
        if _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0)) == -1:
            raise failure()
    finally:
        os.close(ruleset)


def _create(handled: int, version: int) -> int:
    """Create a ruleset and return its descriptor."""
    scopes = _SCOPES if version >= _SCOPE_ABI else 0
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _NET_ABI else 8
    if not handled and not scopes:
        handled = _MAKE_BLOCK  # a ruleset must not be empty
    attributes = struct.pack("QQQ", handled, 0, scopes)
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset == -1:
        raise failure()
    return ruleset


def _opened_without_links(path: str) -> int:
    """Open a path without symbolic links. Raises OSError with the path."""
    if "\0" in path:  # the system would ignore the rest
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    how = struct.pack("QQQ", _AS_PATH, 0, _NO_LINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    opened = _call(_OPENAT2, ctypes.c_int(_CURRENT_FOLDER), name, how, ctypes.c_size_t(24))
    if opened != -1:
        return opened
    error = failure()
    if error.errno == errno.ELOOP:
        reason = "contains a symbolic link; use the real path"
        raise OSError(error.errno, reason, path)
    raise OSError(error.errno, error.strerror, path)


def _allow_program(ruleset: int, opened: int, rights: int) -> None:
    """Allow reading a program; other targets of a link, such as folders or secrets, are refused."""
    mode = os.fstat(opened).st_mode
    if stat.S_ISREG(mode) and mode & 0o111:
        _allow(ruleset, opened, rights)
    else:
        os.close(opened)


def _allow(ruleset: int, opened: int, rights: int) -> None:
    """Allow access below an opened path, and close it. Raises OSError."""
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, opened)
        if rights and (
            _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, 0) == -1
        ):
            raise failure()
    finally:
        os.close(opened)


def _call(call: int, *arguments: object) -> int:
    result: int = libc().syscall(ctypes.c_long(call), *arguments)
    return result
