"""Authentication of callers: bearer tokens of a file, JWTs, and asserted identities.

``CallerResolver`` resolves the callers of every entry; ``Authenticator`` checks tokens, which the
other modules verify.
"""
