"""A certificate authority that no system trusts, and its certificate for a server."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

LIFE = timedelta(days=1)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Certified(NamedTuple):
    ca_file: Path
    """Clients that trust it trust the server."""
    tls: ssl.SSLContext
    """The server's: ``running_backend(tls=...)``."""


def certify(folder: Path, host: str = "127.0.0.1", *, expired: bool = False) -> Certified:
    """Create both; ``host`` is the address or name in the server's certificate."""
    ca_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_public, server_public = ca_key.public_key(), server_key.public_key()
    ca = (
        _named("Test authority", "Test authority", ca_public)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_public), critical=False)
        .not_valid_after(datetime.now(UTC) + LIFE)
        .sign(ca_key, SHA256())
    )
    address = x509.SubjectAlternativeName([_general_name(host)])
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_public)
    server = (
        _named("Test backend", "Test authority", server_public)
        .add_extension(address, critical=False)
        .add_extension(issued_by, critical=False)
        .not_valid_after(datetime.now(UTC) + (-LIFE / 2 if expired else LIFE))
        .sign(ca_key, SHA256())
    )
    ca_file, server_file = folder / "ca.pem", folder / "server.pem"
    ca_file.write_bytes(ca.public_bytes(Encoding.PEM))
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    server_file.write_bytes(key + server.public_bytes(Encoding.PEM))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(server_file)
    return Certified(ca_file, tls)


def _named(
    subject: str, issuer: str, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFE)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
