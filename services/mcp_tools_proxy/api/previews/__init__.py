"""What callers would see with a preset, for operators."""
