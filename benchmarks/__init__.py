"""Measurements of this project and comparable tools on the same files; outside package and CI. Run ``make bench``.

Here: generators of input files, measured jobs, tables of results. Not here: tests of the package
(``genolewm_assets_tests``).
"""
