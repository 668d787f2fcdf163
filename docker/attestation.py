"""Signs the provenance of a release and verifies it: ``make release``, ``make release-verify``.

The attestation is a SLSA provenance statement (in-toto Statement v1) in a DSSE envelope, signed
with Ed25519. Its subjects are the wheel, the sdist and the SBOM in one folder. The key is outside
the repository. There is no time and no random number in it: the same files give the same bytes.
"""

import argparse
import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

ROOT = Path(__file__).parents[1]
NAME = "provenance.intoto.json"
PASSPHRASE = "RELEASE_KEY_PASSPHRASE"  # noqa: S105 - the variable
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PROVENANCE = "https://slsa.dev/provenance/v1"

_IMAGE = re.compile(r"[^@]+@sha256:[0-9a-f]{64}")
_ARTEFACTS = ("*.whl", "*.tar.gz", "sbom.cdx.json")
_LOCKS = ("build", "release", "runtime")


class Refused(Exception):
    """The release cannot be signed, or does not match its attestation; one line."""


def sign(folder: Path, key: Path, *, base_image: str, source: str, revision: str) -> Path:
    """Write the attestation of the artefacts in ``folder``, and return its path. Raises Refused."""
    private = _private_key(key)
    if _IMAGE.fullmatch(base_image) is None:
        raise Refused(f"the base image {base_image!r} has no digest; name it like name@sha256:…")
    statement = {
        "_type": STATEMENT,
        "subject": [
            {"name": path.name, "digest": {"sha256": _digest(path)}} for path in _artefacts(folder)
        ],
        "predicateType": PROVENANCE,
        "predicate": _provenance(base_image, source, revision),
    }
    payload = json.dumps(statement, sort_keys=True).encode()
    signature = private.sign(_signed_bytes(payload))
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {
                "keyid": _key_id(private.public_key()),
                "sig": base64.b64encode(signature).decode(),
            }
        ],
    }
    path = folder / NAME
    path.write_text(json.dumps(envelope, indent=1) + "\n", encoding="utf-8")
    return path


def verify(folder: Path, key: Path) -> Mapping[str, Any]:
    """Return the statement that was signed with the key, if all artefacts are as it says.

    Raises Refused: each subject has to be in ``folder``, and each artefact there a subject.
    """
    statement = _signed_statement(folder / NAME, _public_key(key))
    signed = {it["name"]: it["digest"]["sha256"] for it in statement["subject"]}
    found = {path.name: _digest(path) for path in _artefacts(folder)}
    for name in sorted(signed.keys() | found.keys()):
        if name not in found:
            raise Refused(f"{name} is missing: the attestation names it")
        if name not in signed:
            raise Refused(f"{name} is not in the attestation")
        if found[name] != signed[name]:
            raise Refused(f"{name} was changed: its SHA-256 is {found[name]}, not {signed[name]}")
    return statement


def _signed_statement(path: Path, key: Ed25519PublicKey) -> Mapping[str, Any]:
    try:
        envelope = json.loads(path.read_bytes())
        payload = base64.b64decode(envelope["payload"], validate=True)
        signatures = [base64.b64decode(it["sig"], validate=True) for it in envelope["signatures"]]
        payload_type = envelope["payloadType"]
    except OSError as error:
        raise Refused(f"{path.name} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError):
        raise Refused(f"{path.name} is not a DSSE envelope") from None
    if payload_type != PAYLOAD_TYPE or not any(_is_valid(key, it, payload) for it in signatures):
        raise Refused(f"{path.name} is not signed with this key, or was changed")
    statement: Mapping[str, Any] = json.loads(payload)
    if (statement["_type"], statement["predicateType"]) != (STATEMENT, PROVENANCE):
        raise Refused(f"{path.name} is not a SLSA provenance statement")
    return statement


def _is_valid(key: Ed25519PublicKey, signature: bytes, payload: bytes) -> bool:
    try:
        key.verify(signature, _signed_bytes(payload))
    except InvalidSignature:
        return False
    return True


def _signed_bytes(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _provenance(base_image: str, source: str, revision: str) -> Mapping[str, object]:
    name, _, digest = base_image.partition("@sha256:")
    locks = [ROOT / f"requirements/{it}.lock" for it in _LOCKS]
    return {
        "buildDefinition": {
            "buildType": f"{source}/blob/{revision}/docs/contributing/release.md",
            "externalParameters": {"target": "release", "base_image": base_image, "source": source},
            "resolvedDependencies": [
                {"uri": f"git+{source}@{revision}", "digest": {"gitCommit": revision}},
                {"uri": f"docker://{name}", "digest": {"sha256": digest}},
                *(
                    {"name": f"requirements/{it.name}", "digest": {"sha256": _digest(it)}}
                    for it in locks
                ),
            ],
        },
        "runDetails": {"builder": {"id": f"{source}/blob/{revision}/Makefile"}},
    }


def _artefacts(folder: Path) -> Sequence[Path]:
    """Return the artefacts of a release, sorted. Raises Refused if a kind of them is missing."""
    found = {pattern: sorted(folder.glob(pattern)) for pattern in _ARTEFACTS}
    for pattern, paths in found.items():
        if not paths:
            raise Refused(f"{folder} has no {pattern}")
    return sorted(path for paths in found.values() for path in paths)


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _private_key(path: Path) -> Ed25519PrivateKey:
    if path.resolve().is_relative_to(ROOT):
        raise Refused(f"{path} is in the repository; keep the key outside")
    passphrase = os.environ.get(PASSPHRASE, "").encode()  # noqa: TID251 - no setting of the gateway
    try:
        key = load_pem_private_key(path.read_bytes(), passphrase or None)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise Refused(f"{path} is not a private key in PEM, or {PASSPHRASE} is wrong") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Refused(f"{path} is not an Ed25519 key")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise Refused(f"{path} is not a public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise Refused(f"{path} is not an Ed25519 key")
    return key


def _key_id(key: Ed25519PublicKey) -> str:
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _revision() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Sign or verify; return 0 if it succeeded, 1 if it was refused."""
    parser = argparse.ArgumentParser(prog="python -m docker.attestation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    signing = commands.add_parser("sign")
    signing.add_argument("--base-image", required=True, help="like name@sha256:…")
    signing.add_argument("--source", required=True, help="the address of the repository")
    signing.add_argument("--revision", help="the commit; by default the one that is checked out")
    for command in (signing, commands.add_parser("verify")):
        command.add_argument("--key", type=Path, required=True, help="an Ed25519 key in PEM")
        command.add_argument("folder", type=Path, help="the folder of the artefacts")
    options = parser.parse_args(arguments)
    try:
        if options.command == "sign":
            sign(
                options.folder,
                options.key,
                base_image=options.base_image,
                source=options.source,
                revision=options.revision or _revision(),
            )
            return 0
        statement = verify(options.folder, options.key)
    except Refused as error:
        sys.stderr.write(f"{error}\n")
        return 1
    names = ", ".join(it["name"] for it in statement["subject"])
    built = statement["predicate"]["buildDefinition"]["resolvedDependencies"][0]["uri"]
    sys.stdout.write(f"verified: {names}\nbuilt from {built}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
