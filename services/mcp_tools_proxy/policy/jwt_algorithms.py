"""The signature algorithms of JWTs that settings may allow."""

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""All with a public key: a shared secret would let every holder issue tokens."""
