"""Place corpus records on the genome and cut them into windows."""
