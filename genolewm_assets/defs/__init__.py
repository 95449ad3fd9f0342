"""The Dagster layer: assets, each declared once (``declaration``, ``gates``), and what follows from them.

Here: asset and check declarations, which files an asset's build reads and writes, what the UI shows. Not here: reading
formats (``sources``), domain logic (``lewm``), publishing and hashing (``store``).
"""
