"""Windows of the genome (``reference``) and of other sequences (``corpus``), as tables with checks by other code."""
