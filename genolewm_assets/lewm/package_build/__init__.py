"""Plan, write, describe and check a package."""
