"""Phrases by which a definition gives orders to a model: tool poisoning, as it was published.

English only: other words, or another language, are not found. The phrases are those of attacks
(direct orders to ignore rules, to keep quiet towards the user, to read keys), not of style: "you
must call X first" is in honest definitions, too.
"""

import re

_GAP = r"(?:[^\w.!?]|_){1,8}"
_WORDS = rf"(?:[^\W_]{{1,20}}{_GAP}){{0,4}}"
"""Words and gaps have no character in common, so there is one way to read a text."""
_USER = r"(?:the|your|this)?[\W_]{0,8}(?:user|human|operator|customer)s?\b"

PHRASES = (
    (
        "ignore_instructions",
        re.compile(
            rf"(?i)\b(?:ignore|disregard|forget|override|bypass){_GAP}{_WORDS}"
            rf"(?:previous|prior|earlier|above|preceding|other|system|safety|existing){_GAP}"
            rf"(?:[^\W_]{{1,20}}{_GAP})?(?:instruction|prompt|rule|guideline|direction|message|context)s?\b"
        ),
    ),
    (
        "prompt_tag",
        re.compile(
            r"(?i)</?(?:important|system|instructions?|secret|critical|admin|assistant|hidden)"
            r"(?:[_-](?:instructions?|prompt|message|note))?>"
            r"|<\|(?:im_start|im_end|system|user|assistant|endoftext)\|>|\[/?INST\]|<</?SYS>>"
        ),
    ),
    (
        "keep_from_user",
        re.compile(
            rf"(?i)\b(?:do{_GAP}not|don.{{0,2}}t|never|must{_GAP}not|without){_GAP}{_WORDS}"
            rf"(?:tell|mention|inform|notify|alert|reveal|disclose|warn)(?:ing)?\b"
            rf"[\W_]{{0,8}}{_WORDS}{_USER}"
            rf"|\b(?:hide|keep|conceal){_GAP}{_WORDS}(?:from|secret from){_GAP}{_USER}"
            rf"|{_USER}{_GAP}(?:must|should|does|do|may|need){_GAP}not{_GAP}(?:need{_GAP}to{_GAP})?"
            rf"(?:know|see|notice|be{_GAP}(?:told|informed|aware))\b"
        ),
    ),
    (
        "credential_file",
        re.compile(
            r"(?i)[~/.\\]\.?ssh[/\\]|\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:passwd|shadow)\b"
            r"|\.aws[/\\]credentials\b|\.cursor[/\\]mcp\.json\b|\bclaude_desktop_config\.json\b"
            r"|\.kube[/\\]config\b|\.netrc\b|\.git-credentials\b"
        ),
    ),
)
"""The kind of each, and its pattern; none matches more than 300 characters."""
