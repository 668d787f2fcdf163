"""Building blocks of every HTTP entry, and in ``api`` the HTTP API for the LLM runtime and
operators.

Bodies and their limits, authentication, client addresses, responses and status codes, refusals,
routes in front of the framework, and the sign-in pages.
"""
