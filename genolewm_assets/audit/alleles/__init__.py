"""Alleles as tables: their normal form, those that are held out, and the records of ClinVar.

Not here: searches for them (``audit``).
"""
