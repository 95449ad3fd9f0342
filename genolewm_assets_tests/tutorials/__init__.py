"""The tutorials of ``docs/tutorials``, done as a reader does them."""
