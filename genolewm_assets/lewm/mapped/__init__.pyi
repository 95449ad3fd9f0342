from .opening import open_mapped as open_mapped
from .split import MappedSplit as MappedSplit
from .windows import MappedWindows as MappedWindows
from .writer import SplitWriter as SplitWriter
