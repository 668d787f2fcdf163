"""Lists of the documents that a caller may read: what a store is asked for, and its answer."""
