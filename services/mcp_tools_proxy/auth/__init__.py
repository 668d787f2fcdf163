"""Authentication: who calls, from bearer tokens of a file, JWTs, and asserted identities.

``CallerResolver`` decides for every entry of the gateway; ``Authenticator`` checks tokens, and the
other modules verify them.
"""
