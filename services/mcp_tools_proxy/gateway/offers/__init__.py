"""What servers offer, whatever the active preset shows of it."""
