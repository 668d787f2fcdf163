"""The software bill of materials is valid, reproducible, and covers the lock file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion

from docker.sbom import UnreadableList, read_debian, read_lock, write_sbom
from tests.support.source_files import ROOT

LOCK = (ROOT / "requirements/runtime.lock").read_text(encoding="utf-8")
HASHES = f"--hash=sha256:{'a' * 64} \\\n    --hash=sha256:{'b' * 64}"


@pytest.fixture
def written(tmp_path: Path) -> str:
    write_sbom(tmp_path / "dist/sbom.cdx.json", None)
    return (tmp_path / "dist/sbom.cdx.json").read_text()


def follows_the_schema(bill: str) -> bool:
    # a second of CPU to import, in each worker
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill) is None


def test_it_follows_the_schema_of_cyclonedx(written: str) -> None:
    assert follows_the_schema(written)


def test_the_same_commit_produces_the_same_bytes(written: str, tmp_path: Path) -> None:
    write_sbom(tmp_path / "again", None)
    assert (tmp_path / "again").read_text() == written


def test_it_has_every_linux_pin_of_the_lock_file(written: str) -> None:
    pins = re.findall(r"^([\w.-]+)==(\S+) (;?)", LOCK, re.MULTILINE)
    bill: Any = json.loads(written)
    found = {(it["name"], it["version"]) for it in bill["components"]}
    always = {(name, version) for name, version, marker in pins if not marker}
    assert len(always) > 30
    assert always <= found <= {(name, version) for name, version, _ in pins}
    assert {"uvloop", "cffi"} < {name for name, _ in found}
    assert {"pywin32", "colorama"} & {name for name, _ in found} == set()
    assert all(it["hashes"] for it in bill["components"])
    root = bill["metadata"]["component"]["bom-ref"]
    (depends,) = (it["dependsOn"] for it in bill["dependencies"] if it["ref"] == root)
    assert sorted(depends) == sorted(it["bom-ref"] for it in bill["components"])


def test_markers_are_evaluated_for_the_image_and_not_for_this_machine() -> None:
    lock = "\n".join(
        f"{name}==1.0 ; {marker} \\\n    {HASHES}"
        for name, marker in {
            "windows": "sys_platform == 'win32'",
            "linux": "sys_platform == 'linux'",
            "old": "python_full_version < '3.12'",
            "new": "python_version >= '3.12' and platform_machine == 'x86_64'",
        }.items()
    )
    assert [(pin.name, len(pin.hashes)) for pin in read_lock(lock)] == [("linux", 2), ("new", 2)]


def test_it_states_that_packages_of_the_base_image_are_missing(written: str) -> None:
    properties = json.loads(written)["metadata"]["properties"]
    contents = {it["name"]: it["value"] for it in properties}["mcp-tools-proxy:contents"]
    assert contents.startswith("Python packages only")


def test_a_list_of_the_image_adds_its_debian_packages(tmp_path: Path) -> None:
    (tmp_path / "debian").write_text("libc6\t2.36-9+deb12u10\tamd64\ntzdata\t2025b-0\tall\n")
    write_sbom(tmp_path / "sbom", tmp_path / "debian")
    text = (tmp_path / "sbom").read_text()
    assert follows_the_schema(text)
    debian = [it["purl"] for it in json.loads(text)["components"] if "pkg:deb" in it["purl"]]
    assert debian == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64",
        "pkg:deb/debian/tzdata@2025b-0?arch=all",
    ]
    assert "Python packages only" not in text


def test_a_pin_without_a_hash_is_refused() -> None:
    with pytest.raises(UnreadableList, match="without a pin and hashes"):
        list(read_lock(f"a==1.0 \\\n    {HASHES}\nb==2.0"))


def test_a_list_in_another_format_is_refused() -> None:
    with pytest.raises(UnreadableList, match="not as expected"):
        list(read_debian("ii  libc6:amd64  2.36-9"))
