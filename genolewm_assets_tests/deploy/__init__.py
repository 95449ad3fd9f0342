"""``deploy/`` as a machine runs it: the units' commands, nginx, the scripts, all on a PostgreSQL server."""
