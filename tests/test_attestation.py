"""The attestation of a release is signed and verified, and refuses any change."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from docker.attestation import NAME, PASSPHRASE, Refused, sign, verify
from docker.sbom import write_sbom
from tests.support.source_files import ROOT

IMAGE = f"python:3.12-slim@sha256:{'a' * 64}"
SOURCE = "https://git.example.com/gateway"
REVISION = "b" * 40
WHEEL, SDIST, SBOM = "gateway-1.0-py3-none-any.whl", "gateway-1.0.tar.gz", "sbom.cdx.json"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Write two pairs of keys."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("release", "other"):
        write_pair(folder, name, Ed25519PrivateKey.generate())
    return folder


def write_pair(
    folder: Path, name: str, key: Any, encryption: KeySerializationEncryption | None = None
) -> None:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pem").write_bytes(private)
    (folder / f"{name}.pub").write_bytes(public)


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Build a small release: two archives, and a real SBOM."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / WHEEL).write_bytes(b"PK wheel")
    (folder / SDIST).write_bytes(b"sdist")
    write_sbom(folder / SBOM, None)
    return folder


@pytest.fixture
def signed(dist: Path, keys: Path) -> Path:
    sign(dist, keys / "release.pem", base_image=IMAGE, source=SOURCE, revision=REVISION)
    return dist


def envelope_in(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / NAME).read_text())
    return content


def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "docker.attestation", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_commands_sign_and_verify_a_release(dist: Path, keys: Path) -> None:
    options = ["--base-image", IMAGE, "--source", SOURCE, "--revision", REVISION]
    assert run("sign", *options, "--key", keys / "release.pem", dist) == (0, "")
    code, output = run("verify", "--key", keys / "release.pub", dist)
    assert code == 0
    assert all(it in output for it in (WHEEL, SDIST, SBOM, REVISION))
    (dist / WHEEL).write_bytes(b"PK wheeL")
    code, output = run("verify", "--key", keys / "release.pub", dist)
    assert (code, f"{WHEEL} was changed" in output) == (1, True)


def test_the_statement_is_slsa_provenance(signed: Path, keys: Path) -> None:
    statement = verify(signed, keys / "release.pub")
    subjects = {it["name"]: it["digest"] for it in statement["subject"]}
    build = statement["predicate"]["buildDefinition"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert subjects.keys() == {WHEEL, SDIST, SBOM}
    assert subjects[WHEEL] == {"sha256": sha256(b"PK wheel").hexdigest()}
    assert build["externalParameters"]["base_image"] == IMAGE
    assert [it["digest"] for it in build["resolvedDependencies"][:2]] == [
        {"gitCommit": REVISION},
        {"sha256": "a" * 64},
    ]
    assert statement["predicate"]["runDetails"]["builder"]["id"].startswith("https://")


def test_the_signature_follows_dsse(signed: Path, keys: Path) -> None:
    """OpenSSL is an independent oracle: other tools verify the same bytes."""
    envelope = envelope_in(signed)
    payload = base64.b64decode(envelope["payload"])
    (signed / "pae").write_bytes(
        b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    )
    (signed / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    files = {"-inkey": keys / "release.pub", "-in": signed / "pae", "-sigfile": signed / "sig"}
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-rawin"]
    command += [str(part) for option in files.items() for part in option]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def test_the_same_release_produces_the_same_bytes(signed: Path, keys: Path) -> None:
    before = (signed / NAME).read_bytes()
    sign(signed, keys / "release.pem", base_image=IMAGE, source=SOURCE, revision=REVISION)
    assert (signed / NAME).read_bytes() == before


def change_artefact(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b" ")


def change_envelope(**changes: object) -> Callable[[Path], object]:
    return lambda folder: (folder / NAME).write_text(json.dumps(envelope_in(folder) | changes))


def change_statement(folder: Path) -> None:
    (folder / WHEEL).write_bytes(b"other")
    payload = json.loads(base64.b64decode(envelope_in(folder)["payload"]))
    for subject in payload["subject"]:
        subject["digest"]["sha256"] = sha256((folder / subject["name"]).read_bytes()).hexdigest()
    changed = base64.b64encode(json.dumps(payload).encode()).decode()
    change_envelope(payload=changed)(folder)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "wheel": (change_artefact(WHEEL), f"{WHEEL} was changed"),
    "sdist": (change_artefact(SDIST), f"{SDIST} was changed"),
    "sbom": (change_artefact(SBOM), f"{SBOM} was changed"),
    "other name": (lambda it: (it / WHEEL).rename(it / "x.whl"), f"{WHEEL} is missing"),
    "one wheel more": (lambda it: (it / "x.whl").touch(), "x.whl is not in the attestation"),
    "no sbom": (lambda it: (it / SBOM).unlink(), "has no sbom.cdx.json"),
    "statement": (change_statement, "not signed with this key"),
    "no signature": (change_envelope(signatures=[]), "not signed with this key"),
    "type": (change_envelope(payloadType="text/plain"), "not signed with this key"),
    "no base64": (change_envelope(payload="!"), "not a DSSE envelope"),
    "no envelope": (lambda it: (it / NAME).write_text("[]"), "not a DSSE envelope"),
    "no attestation": (lambda it: (it / NAME).unlink(), "cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_release_is_refused(signed: Path, keys: Path, change: str) -> None:
    tamper, problem = CHANGES[change]
    tamper(signed)
    with pytest.raises(Refused, match=problem):
        verify(signed, keys / "release.pub")


def test_another_key_does_not_verify(signed: Path, keys: Path) -> None:
    with pytest.raises(Refused, match="not signed with this key"):
        verify(signed, keys / "other.pub")


def test_a_key_can_have_a_passphrase(
    dist: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Ed25519PrivateKey.generate()
    write_pair(keys, "locked", key, BestAvailableEncryption(b"open sesame"))
    options = {"base_image": IMAGE, "source": SOURCE, "revision": REVISION}
    for wrong in ("", "other"):
        monkeypatch.setenv(PASSPHRASE, wrong)
        with pytest.raises(Refused, match=PASSPHRASE):
            sign(dist, keys / "locked.pem", **options)
    monkeypatch.setenv(PASSPHRASE, "open sesame")
    sign(dist, keys / "locked.pem", **options)
    assert verify(dist, keys / "locked.pub")


def test_other_kinds_of_keys_cannot_sign(dist: Path, keys: Path) -> None:
    write_pair(keys, "rsa", generate_private_key(public_exponent=65_537, key_size=2_048))
    for name in ("rsa.pem", "none.pem", "release.pub"):
        with pytest.raises(Refused):
            sign(dist, keys / name, base_image=IMAGE, source=SOURCE, revision=REVISION)


def test_a_base_image_without_a_digest_is_refused(dist: Path, keys: Path) -> None:
    with pytest.raises(Refused, match="has no digest"):
        sign(dist, keys / "release.pem", base_image="python:3", source=SOURCE, revision=REVISION)


def test_a_key_in_the_repository_is_refused(dist: Path) -> None:
    with pytest.raises(Refused, match="keep the key outside"):
        sign(dist, ROOT / "key.pem", base_image=IMAGE, source=SOURCE, revision=REVISION)


def test_a_release_with_a_missing_artefact_is_not_signed(dist: Path, keys: Path) -> None:
    (dist / SDIST).unlink()
    with pytest.raises(Refused, match=r"has no \*\.tar\.gz"):
        sign(dist, keys / "release.pem", base_image=IMAGE, source=SOURCE, revision=REVISION)


@pytest.mark.parametrize("key", ["", "/nowhere/release.pem"])
def test_make_release_requires_a_key(key: str) -> None:
    done = subprocess.run(  # noqa: S603 - our own Makefile
        ["make", "release", f"BASE_IMAGE={IMAGE}", f"RELEASE_KEY={key}"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "RELEASE_KEY" in done.stderr) == (2, True)
