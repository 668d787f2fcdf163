"""Who a token stands for: bearer tokens from a file, JWTs checked against a key set."""
