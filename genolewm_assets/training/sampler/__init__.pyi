from .batch_sampler import BatchSampler as BatchSampler
from .order import find_visits as find_visits
from .tables import EditBatch as EditBatch
from .tables import WindowArrays as WindowArrays
