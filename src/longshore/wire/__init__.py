"""How the engine contract travels over HTTP: the documents that both ends read and write."""
