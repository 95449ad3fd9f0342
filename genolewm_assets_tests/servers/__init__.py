"""Servers and programs that tests run: web, S3, PostgreSQL, proxy, Dagster UI, Chromium."""
