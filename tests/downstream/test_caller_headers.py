from pathlib import Path

import pytest

from mcp_tools_proxy.wire.tracing import CALLER_KEY
from tests.downstream.caller_gateway import TOOLS, given, serving, serving_entry, user
from tests.support.captured_logs import capture_logs
from tests.support.mcp_servers.raw_web import running_raw
from tests.support.mcp_servers.server_programs import raw_entry
from tests.support.service import SERVERS, eventually

TENANT = "${caller.tenant_id}"


async def test_each_request_of_the_newer_era_has_its_callers_headers() -> None:
    headers = {"X-Who": f"{TENANT}/${{caller.user_id}}", "X-Roles": "${caller.roles}", "X-P": "p"}
    async with serving({"headers": headers}) as service:
        acme = await given(service, "headers", user("acme", roles=("a,b", "c")))
        assert (acme["x-who"], acme["x-roles"], acme["x-p"]) == ("acme/ann", "a%2Cb,c", "p")
        hostile = await given(service, "headers", user("a, X-Admin: 1;%", "${secret:globex}é"))
        assert hostile["x-who"] == "a%2C%20X-Admin:%201%3B%25/${secret:globex}%C3%A9"
        assert "x-admin" not in hostile


@pytest.mark.parametrize(("transport", "era"), [("http", "modern"), ("http", "legacy")])
async def test_forwarded_parts_are_in_a_calls_meta_and_a_client_cannot_add_any(
    transport: str, era: str
) -> None:
    entry = {"forward": ["tenant_id", "user_id", "agent", "roles"]}
    async with serving(entry, transport=transport, era=era) as service:
        meta = await given(service, "meta", user("acme", roles=("r",)), agent="helper")
        assert meta[CALLER_KEY] == {
            "tenant_id": "acme", "user_id": "ann", "agent": "helper", "roles": ["r"],
        }  # fmt: skip
        refused = await service.execute("s:meta", {}, **user("acme"))
        assert refused["error"]["code"] == "IDENTITY_REQUIRED"
        assert refused["error"]["details"] == {"part": "agent"}


async def test_a_caller_without_a_required_part_is_refused_before_anything_is_sent() -> None:
    async with running_raw("http", era="modern", only=TOOLS) as server:
        entry = {**server.entry, "headers": {"X-Agent": "${caller.agent}"}}
        async with serving_entry(entry) as service:
            assert await service.code("s:headers") == "IDENTITY_REQUIRED"
            assert not server.script.calls


async def test_an_older_server_cannot_have_headers_that_differ_by_call() -> None:
    async with serving({"headers": {"X-Tenant": TENANT}}, era="legacy") as service:
        (server,) = (await service.get(SERVERS))["servers"]
        assert server["state"] == "failed"
        assert "fixed for a session" in server["last_error"]
        assert await service.code("s:headers", **user("acme")) == "SERVER_UNAVAILABLE"


async def test_each_tenant_has_only_the_secret_of_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "secrets/tickets"
    folder.mkdir(parents=True)
    for name, secret in {"acme": "k-acme\n", "globex": "k-globex", "bad": "a\nb"}.items():
        (folder / name).write_text(secret)
    headers = {"Authorization": "Bearer ${secret:tickets/${caller.tenant_id}}"}
    async with serving({"headers": headers}, secrets_dir=folder.parent) as service:
        for tenant in ("acme", "globex", "acme"):
            found = await given(service, "headers", user(tenant))
            assert found["authorization"] == f"Bearer k-{tenant}"
        with capture_logs() as logs:
            for tenant in ("x/../globex", "../tickets/globex", "hooli", "bad", "${secret:globex}"):
                refused = await service.execute("s:headers", {}, **user(tenant))
                assert refused["error"]["code"] == "CREDENTIALS_MISSING", tenant
                assert "tickets" not in str(refused)
        assert "secret tickets/x_2f.._2fglobex does not exist" in str(logs)
        (folder / "acme").write_text("rotated")

        async def is_rotated() -> bool:
            found = await given(service, "headers", user("acme"))
            return bool(found["authorization"] == "Bearer rotated")

        await eventually(is_rotated)


@pytest.mark.parametrize(("transport", "era"), [("http", "legacy"), ("ws", "modern")])
async def test_a_shared_secret_is_sent_in_a_session_and_its_changes_apply(
    tmp_path: Path, transport: str, era: str
) -> None:
    (tmp_path / "key").write_text("first")
    entry = {"headers": {"X-Key": "${secret:key}"}}
    async with serving(entry, transport=transport, era=era, secrets_dir=tmp_path) as service:
        assert (await given(service, "headers", user("acme")))["x-key"] == "first"
        (tmp_path / "key").write_text("second")

        async def second_secret_is_used() -> bool:
            envelope = await service.execute("s:headers", {}, **user("acme"))
            return bool(
                envelope["status"] == "ok"
                and envelope["result"]["structured_content"]["x-key"] == "second"
            )

        await eventually(second_secret_is_used)


async def test_a_missing_secret_of_a_process_is_reported_and_used_when_it_exists(
    tmp_path: Path,
) -> None:
    entry = raw_entry(era="legacy", only=list(TOOLS))
    entry["env"]["TICKETS_KEY"] = "${secret:key}"
    async with serving_entry(entry, secrets_dir=tmp_path) as service:
        (server,) = (await service.get(SERVERS))["servers"]
        assert server["last_error"].endswith(": secret key does not exist")
        (tmp_path / "key").write_text("k")

        async def is_ready() -> bool:
            (server,) = (await service.get(SERVERS))["servers"]
            return bool(server["state"] == "ready")

        await eventually(is_ready)
