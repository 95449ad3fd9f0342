"""How every step of the graph grows: generated genomes at several scales, built step by step, each in a process.

Not here: how fast a part of the product is beside its peers (the other folders), and what is built from real files.
"""
