"""Lists what a server offers, and checks each item of it."""
