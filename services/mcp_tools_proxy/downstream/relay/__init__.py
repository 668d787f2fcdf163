"""What passes between a server and a call's client while the call runs.

Progress and log messages, and the server's requests to the client (elicitation, sampling, roots).
"""
