from hypothesis import settings

ALL_EXAMPLES = 100
QUICK_EXAMPLES = 10


def at_most(examples: int, parent: settings | None = None) -> settings:
    """Draw this many examples with the profile ``full``, otherwise a tenth, but at least ten."""
    drawn = examples * settings().max_examples // ALL_EXAMPLES
    return settings(parent, max_examples=max(QUICK_EXAMPLES, drawn))
