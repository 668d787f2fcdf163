"""Error codes: HTTP status, retryability, and fields of details."""

from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import ProxyError, errors_by_code
from mcp_tools_proxy.http.responses import STATUS_OF_CODE, ErrorStatus
from tests.goldens.field_survey import details_of
from tests.support.goldens import Golden, section

KINDS: list[type[ProxyError]] = [*errors_by_code().values(), CapacityExceeded]


def test_codes_match_the_golden(golden: Golden) -> None:
    lines: list[str] = []
    for kind in sorted(KINDS, key=lambda it: it.code):
        status = STATUS_OF_CODE.get(kind.code, ErrorStatus())
        facts = [f"HTTP API {status.api}", f"MCP over HTTP {status.mcp}"]
        facts += ["retryable"] if kind.retryable else []
        facts += ["nothing ran"] if kind.nothing_ran else []
        lines += section(kind.code, facts)
    golden.check("codes.txt", lines)


def test_details_of_errors_match_the_golden(golden: Golden) -> None:
    """From the source; ``…`` represents fields known only at runtime."""
    details = details_of({kind.__name__: kind.code for kind in all_kinds(ProxyError)})
    facts = {f"{code} {field}" for code, fields in details for field in fields}
    golden.check("details.txt", sorted(facts))


def all_kinds(kind: type[ProxyError]) -> list[type[ProxyError]]:
    """Return the gateway's errors that have a code, including inherited codes."""
    below = [it for child in kind.__subclasses__() for it in all_kinds(child)]
    is_ours = kind.__module__.startswith("mcp_tools_proxy.") and hasattr(kind, "code")
    return [*([kind] if is_ours else []), *below]
