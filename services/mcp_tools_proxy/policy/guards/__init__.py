"""Guards of texts: what each of them finds. Deterministic, in linear time, without I/O."""
