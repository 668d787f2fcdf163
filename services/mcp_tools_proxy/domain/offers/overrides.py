"""What a preset shows of an item instead of what its server says."""

from dataclasses import dataclass
from typing import cast

from mcp_tools_proxy.domain.components import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The fields that a preset replaces; None for one that stays the server's.

    ``name`` is one more name of the item: it is found by its own as well.
    """

    name: str | None = None
    title: str | None = None
    description: str | None = None

    def applied_to(self, descriptor: JsonObject) -> JsonObject:
        """Return a descriptor with the title and description; its name is the server's still."""
        shown = dict(descriptor)
        if self.description is not None:
            shown["description"] = self.description
        if self.title is not None:
            shown["title"] = self.title
            annotations = cast("JsonObject", descriptor.get("annotations") or {})
            if "title" in annotations:  # clients before 2025-06-18 show that one
                shown["annotations"] = {**annotations, "title": self.title}
        return shown


NO_OVERRIDES = Overrides()
