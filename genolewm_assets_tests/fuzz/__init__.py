"""Fuzzing of what reads files of others: the VCF scanner and the reader of its indexes. Run by ``make fuzz``.

Belongs here: targets, their plain referees, and what drives them. What is found becomes a test beside the module.
"""
