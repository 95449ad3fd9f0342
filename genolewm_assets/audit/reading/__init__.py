"""What an audit reads: files of a package (ours, or geno-lewm's) and its root, the FASTA, intervals, contig names.

Not here: comparing them (``audit``), planting leaks (``audit.planting``).
"""
