"""Authentication: who calls, from bearer tokens of a file, JWTs, and asserted identities.

``Authenticator`` decides for every entry of the gateway; the other modules verify tokens.
"""
