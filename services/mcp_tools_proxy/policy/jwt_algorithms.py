"""How JWTs may be signed."""

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Every algorithm that may be allowed: those with a public key."""
