"""A user signs in to a server by the gateway's pages, and is asked for nothing after that."""

from tests.login_pages.page_gateway import PUBLIC_URL, code, page_gateway, sent_token


async def test_a_user_signs_in_and_her_calls_use_her_login() -> None:
    async with page_gateway(scope="read") as gateway:
        url = await gateway.address()
        assert url.startswith(f"{PUBLIC_URL}/oauth/start/")
        browser = gateway.browser()
        closing = await gateway.sign_in(browser, url)
        assert (closing.status_code, "Connected" in closing.text) == (200, True), closing.text
        issued = gateway.issuer.find(f"Bearer {sent_token(await gateway.call())}")
        assert issued is not None
        assert issued.form["redirect_uri"] == f"{PUBLIC_URL}/oauth/callback"
        assert code(await gateway.call(sub="bob")) == "LOGIN_REQUIRED"
