"""Guards of texts: their detectors. Deterministic, in linear time, without I/O."""
