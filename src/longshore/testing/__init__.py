"""What a user's tests and an engine's author need: factories, faults, the model, the contract.

Nothing in longshore imports this package.
"""
