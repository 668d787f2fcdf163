"""Records of unfinished sign-ins: of one process, or in Redis or PostgreSQL for all replicas."""
