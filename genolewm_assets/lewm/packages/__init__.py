"""Read, verify, compare and choose packages; needs nothing that writes them."""
