from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def write_key(file: Path) -> None:
    """Write a new key before the existing ones."""
    before = file.read_bytes() if file.exists() else b""
    key = generate_private_key(SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(pem + before)
