from mcp_tools_proxy.policy.tenant_share import tenant_share
from tests.support.tables import each_row


@each_row(
    ("limit", "share"), [(1, 1), (2, 1), (3, 2), (4, 3), (7, 6), (8, 6), (64, 48), (1000, 750)]
)
def test_a_tenant_can_use_all_but_a_quarter_of_the_slots(limit: int, share: int) -> None:
    assert tenant_share(limit) == share
