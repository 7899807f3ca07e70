"""The tasks that come with Longshore: `noop`, `http.call`, `email.send`.

Each is an ordinary function with typed parameters; the worker's settings are bound into it
beforehand, so that a payload cannot reach them.
"""
