"""What servers offer, and what of it a preset allows."""
