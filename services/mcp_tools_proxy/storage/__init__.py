"""What is kept outside of the process: files, Redis, encrypted records, and two kinds of state.

``idempotency`` keeps calls with a key and their outcomes, ``logins`` the stored logins to servers
and unfinished sign-ins. The other modules do not know what is stored.
"""
