"""OAuth towards servers: where tokens come from, whose they are, and what becomes of a 401.

Which addresses may be dialled is ``reach.py``; the requests are ``oauth_web.py``; who issues tokens
for a server is found by ``discovery.py``; ``grants.py`` gets them, ``owner_tokens.py`` keeps them.
"""
