"""The parts of the console, a module for each: what its pages ask the API, and show of it."""
