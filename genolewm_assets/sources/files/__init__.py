"""Bytes from anywhere: local, remote, resumed, by range."""
