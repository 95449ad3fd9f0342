"""Sources, roots and tables that tests read or build on, one module for each world. No tests, no fixtures."""
