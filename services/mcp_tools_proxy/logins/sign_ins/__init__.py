"""Records of sign-ins that are not finished: of one process, or of all replicas in a Redis."""
