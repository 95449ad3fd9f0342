from .collection import GENOMES_FILE as GENOMES_FILE
from .collection import CollectionFile as CollectionFile
from .collection import SampleLevels as SampleLevels
from .collection import write_genomes as write_genomes
from .genomes import CollectionFormat as CollectionFormat
from .genomes import read_genomes as read_genomes
from .heteroplasmy import check_heteroplasmy_header as check_heteroplasmy_header
