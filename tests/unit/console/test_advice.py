from mcp_tools_proxy.console.pages.tool_calls import ADVICE
from mcp_tools_proxy.domain.audit import CHECK_OF_CODE, Check

NOT_OF_TOOLS = {"NOT_FOUND", "METHOD_NOT_ALLOWED"} | {
    f"{kind}_{end}" for kind in ("PROMPT", "RESOURCE") for end in ("NOT_FOUND", "NOT_ALLOWED")
}


def test_each_error_code_of_a_call_has_advice() -> None:
    no_call = (Check.OPERATION, Check.CALLER)
    codes = {code for code, check in CHECK_OF_CODE.items() if check not in no_call}
    assert set(ADVICE) == codes - NOT_OF_TOOLS
