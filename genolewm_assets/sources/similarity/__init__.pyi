from .search import SequenceSearch as SequenceSearch
