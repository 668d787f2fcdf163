"""What can be called now, and by whom: one frozen ``Registry``, replaced as a whole."""
