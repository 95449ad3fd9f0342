"""Program of a job that says that it has built, and has not; for tests of who believes it."""

from __future__ import annotations

from dagster_pipes import open_dagster_pipes

if __name__ == "__main__":
    with open_dagster_pipes() as pipes:
        pipes.report_custom_message({"outcome": "built", "reused": False})
