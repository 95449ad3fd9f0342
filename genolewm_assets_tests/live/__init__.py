"""Servers started for real: PostgreSQL, the Dagster web server and daemon, and what tests ask of them."""
