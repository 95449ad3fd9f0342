from .search import ALIGNER as ALIGNER
from .search import SequenceSearch as SequenceSearch
