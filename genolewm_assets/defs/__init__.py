"""The Dagster layer: assets and checks, jobs, sensors, schedules, and the metadata that the UI shows.

Here: asset and check declarations, the files that a build reads and writes, run requests. Not here: parsers
(``sources``), domain logic (``packages``, ``training``, ``mito``, ``variants``), publishing and hashing (``store``).
"""
