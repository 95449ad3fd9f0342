"""Fuzzing of what reads files of others: VCF, its indexes, instrument files. Run by ``make fuzz``.

Belongs here: targets, their plain referees, and what drives them. What is found becomes a test beside the module.
"""
