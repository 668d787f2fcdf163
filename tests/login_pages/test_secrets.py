"""Secrets of a sign-in appear in no log, record, export or answer."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from mcp_tools_proxy.domain.identity import OperatorRight
from tests.login_pages.page_gateway import KEYS, LOGINS, TOOL, PageGateway, code, page_gateway
from tests.support.browser import COOKIE, Browser, next_address
from tests.support.configuration import Json
from tests.support.oauth_issuer import Issuer
from tests.support.otlp_receiver import Receiver, export_to, receiving
from tests.support.service import READY, SERVERS
from tests.support.tokens import bearer

ANN_AS_USER = {"tenant_id": "acme", "user_id": "ann"}
IN_FORMS = {"code", "refresh_token", "client_secret", "code_verifier", "subject_token", "token"}
"""Secret fields of requests to issuers."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as started:
        export_to(started.url, monkeypatch)
        yield started


class Answers:
    """Answers to callers and operators; only an address may appear in them."""

    def __init__(self, gateway: PageGateway) -> None:
        self.gateway = gateway
        self.texts: list[str] = []

    async def call(self) -> str:
        answer = await self.gateway.call()
        address = answer.get("error", {}).get("details", {}).pop("url", None)
        assert (address is not None) == (code(answer) == "LOGIN_REQUIRED")
        if code(answer) != "OK":
            self.texts.append(str(answer))
        await self.post("explain", {"tool_name": TOOL, "user": ANN_AS_USER})
        return code(answer)

    async def post(self, path: str, body: Json) -> None:
        token = self.gateway.token(may=[OperatorRight.AUDIT.value])
        http = self.gateway.served.http
        answer = await http.post(f"/internal/mcp/{path}", json=body, headers=bearer(token))
        assert answer.status_code == 200, answer.text
        self.texts.append(answer.text)

    async def get(self, *paths: str) -> None:
        rights = [OperatorRight.PRESETS.value, OperatorRight.LOGINS.value]
        token = self.gateway.token(sub=..., may=rights)
        for path in paths:
            answer = await self.gateway.served.http.get(path, headers=bearer(token))
            assert answer.status_code == 200, answer.text
            self.texts.append(answer.text)


def secrets_of(gateway: PageGateway, *addresses: str) -> set[str]:
    """Return the secrets that browsers and issuers have received."""
    found = {*KEYS, "s1gn-in", "s3cret", *(it.rpartition("/")[2] for it in addresses)}
    for browser in gateway.browsers:
        for answer in browser.answers:
            leads_on = answer.is_redirect or "http-equiv" in answer.text
            query = parse_qs(urlsplit(next_address(answer) if leads_on else "").query)
            found |= {value for name in ("code", "state") for value in query.get(name, ())}
            found |= set(re.findall(rf"{COOKIE}=([^;]+)", str(answer.headers)))
            found |= set(re.findall(r'name="csrf" value="([^"]+)"', answer.text))
    for issuer in (gateway.own, gateway.issuer):
        forms = [form for _, form in issuer.requests]
        found |= {text for form in forms for name, text in form.items() if name in IN_FORMS}
        found |= {it.token for it in issuer.issued} | {*issuer.secrets.values()}
    return found - {""}


def echo(issuer: Issuer, name: str) -> None:
    """Answer token requests at an issuer with a refusal that repeats a part of the request."""

    def refuse(request: web.Request) -> web.Response | None:
        if request.path != "/token":
            return None
        sent = issuer.requests[-1][1].get(name, "nothing")
        return web.json_response({"error": sent, "error_description": sent}, status=400)

    issuer.instead = refuse


async def test_secrets_appear_in_nothing_that_is_written_exported_or_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], receiver: Receiver
) -> None:
    audit, texts = tmp_path / "audit.jsonl", []
    async with page_gateway(log_level="debug", audit=f"file:{audit}") as gateway:
        answers = Answers(gateway)
        assert await answers.call() == "LOGIN_REQUIRED"
        url, browser = await gateway.address(), gateway.browser()
        gateway.issuer.expires_in = 1  # the next call renews it
        await gateway.sign_in(browser, url)
        await browser.open(f"{url}?x=1")
        await browser.send("PUT", url)
        await gateway.served.http.get(urlsplit(url).path, headers={"Host": "evil.example"})
        assert await answers.call() == "OK"
        await answers.get("/metrics", READY, SERVERS, f"{LOGINS}?tenant_id=acme")
        gateway.issuer.refused |= {it.token for it in gateway.issuer.issued}
        echo(gateway.issuer, "refresh_token")
        assert await answers.call() == "CREDENTIALS_INSUFFICIENT"
        ended = await gateway.served.http.delete(
            LOGINS, params={"server_id": "s"}, headers=bearer(gateway.token())
        )
        answers.texts.append(ended.text)
        again = await gateway.address()
        for issuer, name in ((gateway.own, "code"), (gateway.own, "client_secret")):
            echo(issuer, name)
            await gateway.browser().open(again)
        gateway.own.instead = lambda _: None
        echo(gateway.issuer, "code")
        page = await gateway.sign_in(gateway.browser(), again)
        assert "<h1>Not connected" in page.text
        await return_an_error(gateway)
        for it in gateway.browsers:
            texts += [answer.text for answer in it.answers if answer.status_code >= 400]
            texts += [answer.text for answer in it.answers if "/oauth/done" in str(answer.url)]
        secrets = secrets_of(gateway, url, again)
        texts += answers.texts
    output = capsys.readouterr()
    written = {
        "log": output.out + output.err,
        "audit": audit.read_text(),
        "traces": receiver.raw.decode("utf-8", "replace"),
        "answers": "\n".join(texts),
    }
    assert len(secrets) >= 25
    assert all(len(it) > 500 for it in written.values())
    assert "login.signed_in" in written["log"]
    assert [
        (where, it) for where, text in written.items() for it in secrets if is_in(text, it)
    ] == []
    assert [where for where, text in written.items() if "eyJ" in text] == []  # prefix of JWTs


async def return_an_error(gateway: PageGateway) -> None:
    """Return to the gateway with an answer whose error is the state of the sign-in."""
    browser = gateway.browser()
    gateway.issuer.instead = lambda _: None
    going = await browser.press(await browser.open(await gateway.address()))
    back = (await Browser("", "").send("GET", next_address(going))).headers["location"]
    state = parse_qs(urlsplit(back).query)["state"][0]
    page = await browser.open(f"{back}&error={state}")
    assert "<h1>Not connected" in page.text


def is_in(text: str, secret: str) -> bool:
    """Return whether a text contains a secret: "code-12" does not contain "code-1"."""
    return re.search(rf"(?<![\w-]){re.escape(secret)}(?!\w)", text) is not None
