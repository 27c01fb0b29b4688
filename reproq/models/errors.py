"""The base of every error that Reproq raises on purpose."""


class ReproqError(Exception):
    """A message says what, which one, and what to do next."""
