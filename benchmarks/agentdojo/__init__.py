"""AgentDojo's suites, replayed through the checks of runs: which injected goals are reached.

No model is used. An agent that always falls for the injection makes the calls of AgentDojo's ground
truths. Labels of the suites' tools are in ``labels``, written from the tools' descriptions alone.
Nothing of AgentDojo is copied here; it is installed from PyPI (requirements/agentdojo.lock).
"""
