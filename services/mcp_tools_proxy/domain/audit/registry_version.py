"""Which registry was in force."""

from typing import NamedTuple


class RegistryVersion(NamedTuple):
    """The active preset, and the number of the registry among those of this process."""

    preset_id: str | None
    generation: int


NO_REGISTRY = RegistryVersion(None, 0)
"""Before the first one was published."""
