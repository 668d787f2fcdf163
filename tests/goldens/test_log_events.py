"""Log events with levels and fields, from the source."""

from collections import defaultdict

from tests.goldens.field_survey import UNKNOWN, events_named_in, log_events
from tests.support.goldens import Golden, section
from tests.support.source_files import ROOT

PAGES = ("metrics-and-logs", "connector-protocol")
REST = "(an event that is known only when it runs)"


def test_log_events_match_the_golden(golden: Golden) -> None:
    """``…`` represents fields or a level known only at runtime."""
    levels: dict[str, set[str]] = defaultdict(set)
    fields: dict[str, set[str]] = defaultdict(set)
    for event, level, found in log_events():
        name = REST if event in UNKNOWN else event
        levels[name].add("error" if level == "exception" else level)
        fields[name] |= found
    pages = (ROOT / f"docs/reference/{page}.md" for page in PAGES)
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    lines: list[str] = []
    for event in sorted({*events_named_in(text), *levels}):
        facts = [f"level {level}" for level in levels[event]]
        lines += section(event, [*facts, *(f"field {it}" for it in fields[event])])
    golden.check("log_events.txt", lines)
