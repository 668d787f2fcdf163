"""Checks of arguments that may take long, in processes of their own."""
