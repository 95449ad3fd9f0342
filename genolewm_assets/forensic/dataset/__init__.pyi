from .hid_dataset import HIDDataset as HIDDataset
from .image import HIDImage as HIDImage
from .image import to_arrays as to_arrays
from .scaling import ScalingStrategy as ScalingStrategy
from .strategies import DatasetStrategy as DatasetStrategy
from .strategies import NFIRnDStrategy as NFIRnDStrategy
from .strategies import RunFolderStrategy as RunFolderStrategy
