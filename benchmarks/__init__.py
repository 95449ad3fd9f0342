"""Side-by-side measurements against other tools; outside the package, the tests and CI. Run: ``make bench``."""
