"""What passes between a server and the client of a call while the call runs."""
