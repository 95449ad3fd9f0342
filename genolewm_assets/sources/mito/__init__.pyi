from .collection import GENOMES_FILE as GENOMES_FILE
from .collection import CollectionFile as CollectionFile
from .collection import SampleLevels as SampleLevels
from .collection import write_genomes as write_genomes
from .genomes import CollectionFormat as CollectionFormat
