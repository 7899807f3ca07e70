"""An app with the built-in tasks and no others.

A child process imports it to run a built-in task, so that it needs no app of the user's.
"""

from longshore.app import Longshore

__all__ = ["app"]

app = Longshore()
