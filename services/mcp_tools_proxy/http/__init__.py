"""What every HTTP entry needs, and in ``api`` the HTTP API for the LLM runtime and operators.

Bodies and their limits, who sends a request and from where, responses and the status of each code,
refusals, routes in front of the framework's stack, and the pages by which users sign in to servers.
"""
