"""Processes and sockets: confined worker processes, and what clients of other services share.

On Linux a process confines itself, and cannot undo it: an import process before it reads the file,
and the guard of a stdio server between fork and exec. Both have one thread then. ``preexec_fn`` is
not used, because it runs Python in a fork of the gateway, whose other threads may hold locks. The
system is called by ctypes: the packages on PyPI are development releases, or need libseccomp on the
machine. There only the standard library is imported, so that the guard can use it without
site-packages.
"""
