"""The laboratory: programs that break Longshore on purpose and count what is left.

It imports longshore; longshore never imports it.
"""
