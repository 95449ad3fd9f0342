"""Builds and readers under kill -9, power cuts, full disks and each other."""
