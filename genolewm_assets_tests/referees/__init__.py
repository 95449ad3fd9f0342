"""The same work done again, plainly and independently: what tests compare the package with."""
