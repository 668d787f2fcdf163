import base64

import pytest

from mcp_tools_proxy.app.approvals import build_webhook
from mcp_tools_proxy.settings.settings import Settings

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.mark.parametrize("url", ["http://", "https://[::bad/", "https://hooks.internal:99999/"])
def test_an_unusable_url_is_refused_at_the_start(url: str) -> None:
    """The first approval would stop the gateway otherwise."""
    settings = Settings.model_validate(
        {"approvals_webhook": url, "approvals_webhook_secret": SECRET}
    )
    with pytest.raises(ValueError, match=r"^MCP_PROXY_APPROVALS_WEBHOOK: "):
        build_webhook(settings)


def test_a_usable_url_is_accepted() -> None:
    settings = Settings.model_validate(
        {
            "approvals_webhook": "https://hooks.internal/approvals",
            "approvals_webhook_secret": SECRET,
        }
    )
    assert build_webhook(settings) is not None
