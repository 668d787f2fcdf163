"""What every HTTP entry needs before it knows what is asked: bodies, traces, callers who leave."""
