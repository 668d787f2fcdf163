"""The acceptance ids of the contract that this version fulfils, as data.

A test shows one by ``@pytest.mark.requirement("T-01")``; ``test_requirements.py`` fails when an id
has no test, or a test names an id that is not here.
"""

REQUIREMENTS = {
    "T-01": "arguments of local tools are validated before anything runs",
    "T-02": "chunk windows: the radius in force, edges, the byte limit",
    "T-03": "the Retrieval Service's endpoint and every way it can fail",
    "T-04": "what is asked before Retrieval, with and without mock_mode",
    "T-05": "the seed document",
    "T-06": "blocked keywords",
    "T-07": "search: ranking, inflection, any query text, off the event loop",
    "T-08": "which budgets a call counts against, and their keys",
    "T-09": "windows, admission and charges; exactly N of M",
    "T-10": "limits does the counting; Redis shared and failing over",
}
