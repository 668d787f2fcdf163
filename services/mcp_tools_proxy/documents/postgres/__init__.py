"""Documents in PostgreSQL (contract §5): read in parts, written whole, changes told by NOTIFY.

The gateway's role owns nothing. Each transaction names its tenant, and row-level security shows it
the rows of that tenant only, whatever a statement says.
"""
