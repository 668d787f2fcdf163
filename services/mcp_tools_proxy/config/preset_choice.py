"""Chooses the preset that should be active (contract §6), by the first rule that applies.

- The preset that the environment pins is chosen, always.
- A ``defaultPresetId`` that differs from the previous one is chosen, at the start and while
  running. Removing the key chooses nothing.
- When mcp.json is read for the first time and nothing was chosen yet, the only preset is chosen,
  valid or not. With none or several nothing is chosen, and the empty preset is active.
- Else the chosen preset stays chosen.

A caller may choose as well, see ``gateway.preset_switch``. Nothing else does: saving the file of
another preset never activates it.
"""

from collections.abc import Callable

from mcp_tools_proxy.config.loader import PresetListing
from mcp_tools_proxy.domain.configuration import Configuration


def choose_preset(
    configuration: Configuration | None,
    before: Configuration | None,
    chosen: str | None,
    *,
    pinned: str | None,
    list_presets: Callable[[], PresetListing],
) -> str | None:
    """Return the id of the preset that should be active now, None if none is chosen.

    ``configuration`` is mcp.json as last read, ``before`` the version before that; None is one that
    could never be read. ``chosen`` is the choice so far, ``pinned`` the preset of the environment.
    """
    if pinned:
        return pinned
    if configuration is None:
        return chosen
    default = configuration.default_preset_id
    if default is not None and (before is None or default != before.default_preset_id):
        return default
    if before is None and chosen is None:
        return _only_preset(list_presets())
    return chosen


def _only_preset(listing: PresetListing) -> str | None:
    broken = {problem.file for problem in listing.problems}
    ids = [preset.preset_id for preset in listing.presets]
    ids += [file.removeprefix("preset_").removesuffix(".json") for file in broken]
    return ids[0] if len(ids) == 1 else None
