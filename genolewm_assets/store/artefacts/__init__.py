"""Build, publish, open, verify and collect artefacts."""
