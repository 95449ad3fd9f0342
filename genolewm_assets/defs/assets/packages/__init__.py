"""Assets of packages: the splits of a release, their audit, and the package in use with the report of its moves."""
