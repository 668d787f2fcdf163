"""Documents in PostgreSQL (contract §5): partial reads, atomic writes, changes by NOTIFY.

The gateway's role owns nothing. Each transaction sets its tenant, and row-level security limits
every statement to the rows of that tenant.
"""
