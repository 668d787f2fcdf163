"""The pages by which users of a deployed gateway sign in to servers: HTML without script.

What a sign-in is and what is kept of it is not here: see ``SignInPages``.
"""
