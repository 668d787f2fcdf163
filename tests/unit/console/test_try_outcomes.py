import json

from mcp_tools_proxy.console.pages.try_page import MAX_SHOWN_CHARS, outcome_of
from tests.support.tables import each_row


def rows(count: int) -> list[object]:
    return [{"id": number, "name": f"row {number}", "values": [1, 2, 3]} for number in range(count)]


def answer_with(result: object) -> bytes:
    answer = {"status": "ok", "result": result, "trace_id": "t", "text": "x"}
    return json.dumps(answer, separators=(",", ":")).encode()


@each_row("count", [2_000, 20_000])
def test_the_start_of_a_large_envelope_is_formatted_like_a_small_one(count: int) -> None:
    small, large = (outcome_of(answer_with(rows(it)), 1.0) for it in (200, count))
    assert large.envelope.text[:10_000] == small.envelope.text[:10_000]
    assert (large.envelope.is_cut, len(large.envelope.text)) == (True, MAX_SHOWN_CHARS)
    assert large.envelope.length == len(answer_with(rows(count)))
    assert (large.code, large.trace_id) == ("OK", "t")


@each_row("result", [[1] * 5_000, {"a": {"b": [[1, {"c": "d"}], []]}}, ["y" * 1_999], [], "", None])
def test_a_small_envelope_is_shown_completely(result: object) -> None:
    shown = outcome_of(answer_with(result), 1.0).envelope
    whole = json.dumps({"status": "ok", "result": result, "trace_id": "t"}, indent=2)
    assert shown.text == whole[:MAX_SHOWN_CHARS]
    assert shown.is_cut == (len(whole) > MAX_SHOWN_CHARS)


def test_a_long_text_is_truncated_and_marked() -> None:
    shown = outcome_of(answer_with({"data": "z" * 3_000_000}), 1.0).envelope
    assert ("… (3,000,000 characters)" in shown.text, shown.is_cut) == (True, False)
