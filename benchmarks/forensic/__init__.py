"""Measurements of instrument files, pre-processed profiles, and items of the data set."""
