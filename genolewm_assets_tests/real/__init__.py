"""The graph over the real data in ../shared/data: one root, built once, looked at by every module of this folder."""
