from .artefacts import PullUpRules as PullUpRules
from .artefacts import find_pull_up as find_pull_up
from .baseline import subtract_baseline as subtract_baseline
from .peaks import Peaks as Peaks
from .peaks import find_peaks as find_peaks
