"""Headers of responses that have a form of their own."""
