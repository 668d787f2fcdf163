"""Tenants named like paths, options, headers or secrets: each is one literal value everywhere."""

import unicodedata
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.isolation.witness import CALLER_KEY, KINDS, config_of, server_of
from tests.support.configuration import Json
from tests.support.service import Service, running

SEGMENTS: Mapping[str, str] = {
    "globex": "globex",
    "../globex": "_2e._2fglobex",
    "acme/../globex": "acme_2f.._2fglobex",
    "..": "_2e.",
    "${secret:globex}": "_24_7bsecret_3aglobex_7d",
    "${caller.user_id}": "_24_7bcaller.user__id_7d",
    "--era=legacy": "--era_3dlegacy",
    "a, X-Admin: 1; b": "a_2c_20X-Admin_3a_201_3b_20b",
    "a%0d%0aX-Admin: 1": "a_250d_250aX-Admin_3a_201",
    unicodedata.normalize("NFC", "é"): "_c3_a9",
    unicodedata.normalize("NFD", "é"): "e_cc_81",
    "\U0001f98a_\u202e": "_f0_9f_a6_8a___e2_80_ae",
    "n" * 255: "n" * 255,
}
"""Tenants, each with its single path segment."""
TOO_LONG = "n" * 256
"""Longer than the maximum length of a file name."""
REFUSED = ("a\r\nX-Admin: 1", "a\nb", "globex\x00", "\x00", "a\x85b", "n" * 257, "")
"""IDs that validation refuses, so that nothing of them arrives anywhere."""
TEMPLATES = {"tenant": "${caller.tenant_id}", "key": "${secret:keys/${caller.tenant_id}}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder with a secret and a folder for each tenant."""
    for name in ("keys", "work"):
        (tmp_path / name).mkdir()
    for segment in SEGMENTS.values():
        (tmp_path / "keys" / segment).write_text(f"key of {segment}")
        (tmp_path / "work" / segment).mkdir()
    return tmp_path


def entry_of(server: Json, folder: Path) -> Json:
    """Build an entry with the tenant in each template of its transport."""
    entry = {**server, "isolation": "tenant", "forward": ["tenant_id"], "maxSessions": 4}
    entry["bind"] = {"text": TEMPLATES["tenant"]}
    if "command" not in entry:
        return entry | {"headers": {f"X-{it}": text for it, text in TEMPLATES.items()}}
    entry["args"] = [*entry["args"], "--name", TEMPLATES["tenant"]]
    entry["env"] = entry["env"] | {f"CALLER_{it}": text for it, text in TEMPLATES.items()}
    entry["cwd"] = f"{folder}/work/{TEMPLATES['tenant']}"
    return entry | {"discoveryCaller": {"tenant_id": "globex"}}


async def call(service: Service, tenant_id: str, tool: str = "witness") -> Json:
    return await service.execute(f"s:{tool}", tenant_id=tenant_id)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_id_is_one_distinct_value(kind: str, folder: Path) -> None:
    async with server_of(kind, "echo") as server:
        config = config_of({"s": entry_of(server, folder)}, "echo")
        async with running(config=config, secrets_dir=folder) as service:
            for tenant_id, segment in SEGMENTS.items():
                envelope = await call(service, tenant_id)
                assert envelope["status"] == "ok", envelope
                seen = envelope["result"]["structured_content"]
                values = seen["environment"] if kind == "stdio" else seen["headers"]
                prefix = "CALLER_" if kind == "stdio" else "x-"
                assert unquote(values[f"{prefix}tenant"]) == tenant_id
                assert values[f"{prefix}key"] == f"key of {segment}"
                assert seen["meta"][CALLER_KEY] == {"tenant_id": tenant_id}
                assert "x-admin" not in seen["headers"]
                if kind == "stdio":
                    assert unquote(seen["arguments"][-1]) == tenant_id
                    assert not seen["arguments"][-1].startswith("-")
                    assert seen["folder"] == segment
                bound = await call(service, tenant_id, "echo")
                assert bound["result"]["structured_content"] == {"text": tenant_id}
            assert await service.code("s:echo", tenant_id=TOO_LONG) == "CREDENTIALS_MISSING"
            for tenant_id in REFUSED:
                assert await service.code("s:echo", tenant_id=tenant_id) == "INVALID_REQUEST"
