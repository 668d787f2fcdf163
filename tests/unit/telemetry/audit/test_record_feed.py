from mcp_tools_proxy.telemetry.audit.audit_trail import (
    MAX_WAITING,
    AuditTrail,
    LostRecords,
    RecordFeed,
)
from mcp_tools_proxy.telemetry.audit.record_search import RecordFilter


def record(trail: AuditTrail, tenant_id: str, number: int) -> None:
    trail.record("info", "tool.call", f"{tenant_id}-{number}", {"tenant_id": tenant_id})


async def test_a_loss_is_reported_between_kept_and_later_records() -> None:
    trail, feed = AuditTrail(), RecordFeed(RecordFilter())
    with trail.following(feed):
        for number in range(MAX_WAITING + 3):
            record(trail, "t", number)
        first = await feed.next()
        record(trail, "t", 1000)  # there is free capacity again, but only after the lost records
        found = [first, *[await feed.next() for _ in range(MAX_WAITING)]]
        record(trail, "t", 2000)
        last = await feed.next()
    assert [f'"t-{number}"' in str(it) for number, it in enumerate(found[:-1])] == [
        True
    ] * MAX_WAITING
    assert (found[-1], feed.lost) == (LostRecords(4), 4)
    assert '"t-2000"' in str(last)


async def test_records_of_other_tenants_do_not_use_capacity() -> None:
    trail, feed = AuditTrail(), RecordFeed(RecordFilter(tenant_id="t"))
    with trail.following(feed):
        for number in range(MAX_WAITING + 3):
            record(trail, "other", number)
        record(trail, "t", 1)
        assert '"t-1"' in str(await feed.next())
    assert (feed.lost, trail.followers) == (0, 0)
