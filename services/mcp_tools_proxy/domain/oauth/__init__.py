"""How the gateway gets tokens for servers: by which grant, and in whose name."""
