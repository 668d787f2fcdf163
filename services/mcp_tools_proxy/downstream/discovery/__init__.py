"""Discovery: lists what a server offers, and keeps the usable items."""
