"""What binds the steps of a sign-in to one browser: a secret in its cookie, and what follows of it.

The state that an issuer sees is a digest of the secret: who has the state alone, from a link or a
log of the issuer, cannot make the cookie.
"""

import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from hashlib import sha256

SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class BrowserSecret:
    """The secret of one browser, for one trip to an issuer and back."""

    cookie: str = field(repr=False)

    @classmethod
    def new(cls) -> "BrowserSecret":
        """Return one that nobody has had."""
        return cls(secrets.token_urlsafe(SECRET_BYTES))

    @property
    def state(self) -> str:
        """The ``state`` of the trip."""
        return self._derived("state")

    @property
    def csrf(self) -> str:
        """The token of the form by which the user goes on."""
        return self._derived("csrf")

    @property
    def confirmation(self) -> str:
        """The name under which the step waits for the user's button."""
        return self._derived("confirmation")

    @property
    def closing(self) -> str:
        """The name under which this browser finds how its sign-in has ended."""
        return self._derived("closing")

    def is_of(self, state: str) -> bool:
        """Return whether a state is the one of this browser."""
        return hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))

    def allows(self, csrf: str) -> bool:
        """Return whether a form is one that this browser was given."""
        return hmac.compare_digest(self.csrf.encode(), csrf.encode("utf-8", "replace"))

    def _derived(self, purpose: str) -> str:
        digest = sha256(f"{purpose}:{self.cookie}".encode("utf-8", "replace")).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()
