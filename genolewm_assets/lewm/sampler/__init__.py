"""The sampler of ``lewm.edits`` as compiled loops over arrays: draws, edits and tokens of a batch of windows at a time.

Belongs here: tables of windows, alleles and drawn edits as arrays, and the kernels that read and write them. Every
number equals that of ``lewm.edits``, which is plain Python. Does not belong here: windows and alleles by row
(``lewm.edits``), the order of windows, tuples and batches (``lewm.training``).
"""
