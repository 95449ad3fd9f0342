from .dataset import GenoLeWMDataset as GenoLeWMDataset
from .dataset import GenoLeWMTestDataset as GenoLeWMTestDataset
from .dataset import GenoLeWMValDataset as GenoLeWMValDataset
from .tuples import TrainingTuple as TrainingTuple
