"""A client's view of the gateway, the same through every transport."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.local_tools import LISTED_TOOLS

Json = dict[str, Any]
SECTION = ("read_doc_section", {"doc_id": "doc_1", "section_id": "sec_intro"})
ECHO = ("s1:echo", {"text": "Привет"})
TOOLS = sorted([*LISTED_TOOLS, "s1:echo"])


def report(tools: Sequence[str], section: Mapping[str, Any], echo: Mapping[str, Any]) -> Json:
    """Return the listed names, and the structured contents of SECTION and ECHO."""
    return {"tools": sorted(tools), "title": section["title"], "echo": dict(echo)}


EXPECTED = {"tools": TOOLS, "title": "Introduction", "echo": {"text": "Привет"}}


def request() -> str:
    """Return both calls as JSON, for a client program."""
    return json.dumps({"section": SECTION, "echo": ECHO})
