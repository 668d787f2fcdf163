"""Imports modules in threads, one at a time.

Two threads that import packages of a circle, such as the SDK's, do not wait for each other: one
of them gets a module that is half imported, and an ImportError.
"""

import asyncio
from importlib import import_module
from threading import Lock
from types import ModuleType

_IMPORTING = Lock()


async def import_in_thread(name: str) -> ModuleType:
    """Return a module; its import would stop the event loop."""
    return await asyncio.to_thread(_import_alone, name)


def _import_alone(name: str) -> ModuleType:
    with _IMPORTING:
        return import_module(name)
