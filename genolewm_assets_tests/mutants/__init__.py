"""Mutants: small faults put into the product, to see which test catches them. Run by ``make mutants``."""
