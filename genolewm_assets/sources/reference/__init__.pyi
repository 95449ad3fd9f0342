from .fasta import FastaReader as FastaReader
from .fasta import check_fasta as check_fasta
from .fasta import compare_contigs as compare_contigs
from .fasta import prepare_genome as prepare_genome
from .fasta import usable_index as usable_index
from .tracks import read_bed_track as read_bed_track
