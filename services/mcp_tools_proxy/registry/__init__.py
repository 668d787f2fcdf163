"""What can be called now, and by whom."""
