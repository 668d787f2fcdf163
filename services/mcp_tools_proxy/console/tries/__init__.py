"""What the page "Try" is made of: for which caller, of which tool, and how a call ended."""
