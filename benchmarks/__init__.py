"""What the service costs, beside bare endpoints, a bare forwarder and the bare search engine.

``python -m benchmarks`` prints each target of the service beside what was measured. Candidates take
turns within each round, medians of the rounds are printed, and only ratios within one run mean
something. Nothing leaves the loopback interface or the temporary folder.
"""
