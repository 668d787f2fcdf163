"""Confinement of processes, worker processes, and connections shared by clients of other services.

On Linux a process confines itself irreversibly: an import process before it reads the file, and the
guard of a stdio server between fork and exec, each while it has one thread. ``preexec_fn`` would
run Python in a fork of the gateway, whose other threads may hold locks. System calls use ctypes,
because the packages on PyPI are development releases or require libseccomp. These modules import
only the standard library, so that the guard runs without site-packages.
"""
