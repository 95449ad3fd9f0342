from .batch_sampler import BatchSampler as BatchSampler
from .tables import EditBatch as EditBatch
from .tables import WindowArrays as WindowArrays
