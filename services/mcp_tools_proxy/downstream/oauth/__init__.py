"""OAuth towards servers: where tokens come from, whose they are, and what becomes of a 401.

``oauth_web`` sends the requests, and decides which addresses may be dialled; ``discovery`` finds
who issues tokens for a server; ``token_endpoint`` gets them, ``server_tokens`` keeps them,
``login_renewal`` renews those of people who have signed in: by the command, or by our pages
(``page_flow``).
"""
