"""The routes that show and change the level of the log at run time."""
