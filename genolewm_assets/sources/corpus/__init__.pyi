from .aligner import MappyAligner as MappyAligner
from .files import list_corpus_files as list_corpus_files
from .files import look_at_corpus_file as look_at_corpus_file
from .genome_slices import GenomeSlices as GenomeSlices
from .parts import PART_BP as PART_BP
from .parts import needs_parts as needs_parts
from .writing import audit_corpus_windows as audit_corpus_windows
from .writing import write_corpus_windows as write_corpus_windows
