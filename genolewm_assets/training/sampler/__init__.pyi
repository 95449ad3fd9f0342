from .batch_sampler import BatchSampler as BatchSampler
from .batch_sampler import find_visits as find_visits
from .tables import EditBatch as EditBatch
from .tables import WindowArrays as WindowArrays
from .tables import widen as widen
