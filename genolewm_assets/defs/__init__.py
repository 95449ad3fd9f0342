"""The Dagster layer: assets and checks, jobs, sensors, schedules, and the metadata that the UI shows.

Not here: parsers (``sources``), domain logic (``packages``, ``mito``, ``variants``), publishing (``store``).
"""
