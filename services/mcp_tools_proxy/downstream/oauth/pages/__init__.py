"""Sign-ins of users by the gateway's own pages: at the JWT issuer first, then at the server's.

No web framework here: pages and cookies are in ``login_pages``.
"""
