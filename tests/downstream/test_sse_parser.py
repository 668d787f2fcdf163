from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.downstream.mcp_client.messages import Line, LineSplitter
from mcp_tools_proxy.downstream.mcp_client.response_body import Event, EventParser

STREAM = (
    b"\xef\xbb\xbf: a comment\n"
    b"id: 7\r\nevent: message\r\ndata: one\r\ndata:two\r\n\r\n"
    b"\n\n"
    b"retry: 250\rdata: three\r\r"
    b"event: endpoint\ndata: /here?x=1\n\n"
    b"nonsense\nretry: soon\ndata\n\n"
    b"data: last"
)
EVENTS = [
    Event(b"one\ntwo"),
    Event(b"three"),
    Event(b"/here?x=1", "endpoint"),
    Event(b""),
    Event(b"last"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_events_are_the_same_for_every_split_of_the_stream(cuts: list[int]) -> None:
    parser = EventParser(1000)
    edges = [0, *sorted(cuts), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in parser.feed(STREAM[start:end])]
    assert events + parser.end() == EVENTS
    assert (parser.last_event_id, parser.retry_ms) == ("7", 250)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_over_the_limit_is_cut_and_the_next_one_is_complete(size: int) -> None:
    stream = b'data: {"id": 3, ' + b"x" * 10_000 + b"\n\ndata: next\n\n"
    parser = EventParser(5000)
    events = [
        event
        for start in range(0, len(stream), size)
        for event in parser.feed(stream[start : start + size])
    ]
    assert [(event.cut, len(event.data) < 5000) for event in events] == [
        (True, True),
        (False, True),
    ]
    assert events[0].data.startswith(b'{"id": 3, x')
    assert events[1].data == b"next"


def test_many_data_lines_count_together_against_the_limit() -> None:
    parser = EventParser(100)
    (event,) = parser.feed(b"data: 0123456789\n" * 11 + b"\n")
    assert event.cut


def test_an_event_of_exactly_the_limit_is_complete() -> None:
    parser = EventParser(100)
    (event,) = parser.feed(b"data: " + b"x" * 100 + b"\n\n")
    assert (event.cut, len(event.data)) == (False, 100)


def test_a_line_over_the_limit_is_cut_in_bounded_memory() -> None:
    lines = LineSplitter(10)
    for _ in range(1000):
        assert lines.feed(b"x" * 1000) == []
    cut, whole = lines.feed(b"\nok\n")
    assert (cut.cut, len(cut.data) <= 4096, whole) == (True, True, Line(b"ok"))


def test_an_unterminated_last_line_is_returned_at_the_end() -> None:
    lines = LineSplitter(10)
    assert lines.feed(b"a\nb") == [Line(b"a")]
    assert lines.end() == [Line(b"b")]
    assert lines.end() == []
