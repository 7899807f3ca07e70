"""An engine somewhere else: the contract over HTTP, through a Longshore API service."""
