"""What an audit reads: files of a package and of its root, the reference FASTA, held-out intervals, names of contigs.

Not here: comparing them (``audit``), planting leaks (``audit.planting``).
"""
