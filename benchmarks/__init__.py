"""Costs of the service compared with bare endpoints, a bare forwarder and the SDK's server.

``python -m benchmarks`` prints each target of the service with its measurement. Alternatives are
measured in turn within each round, and medians of the rounds are printed. Only ratios within one
run are meaningful. All traffic uses the loopback interface, and files are in a temporary folder.
"""
