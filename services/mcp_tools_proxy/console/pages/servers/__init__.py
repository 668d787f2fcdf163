"""The pages of servers: how they are, what one offers, changed definitions, and logins."""
