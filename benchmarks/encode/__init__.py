"""Cost of states: windows and edited windows, beside plain ``transformers`` and the machine's own rates."""
