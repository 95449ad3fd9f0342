from .collection import fasta_text as fasta_text
from .collection import genbank_text as genbank_text
from .genomes import simulate_mito_genomes as simulate_mito_genomes
from .heteroplasmy import AF_LAYOUT as AF_LAYOUT
from .heteroplasmy import HL_LAYOUT as HL_LAYOUT
from .heteroplasmy import heteroplasmy_vcf as heteroplasmy_vcf
