from .freezing import write_frozen as write_frozen
from .training import GenoLeWMDataset as GenoLeWMDataset
from .training import GenoLeWMTestDataset as GenoLeWMTestDataset
from .training import GenoLeWMValDataset as GenoLeWMValDataset
from .training import TrainingTuple as TrainingTuple
from .training import as_tensors as as_tensors
