"""The route that shows what is left of budgets: its query, answer and handler."""
