"""OAuth client: token acquisition, ownership, and handling of 401 responses of servers.

``oauth_web`` sends the requests and restricts their addresses; ``discovery`` finds the issuer of a
server's tokens; ``token_endpoint`` gets them; ``server_tokens`` keeps them; ``login_renewal``
renews those of people who signed in, by the command or by the gateway's pages (``page_flow``).
"""
