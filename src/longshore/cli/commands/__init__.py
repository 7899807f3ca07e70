"""One module per command, imported when it is called; its click object is `command`."""
