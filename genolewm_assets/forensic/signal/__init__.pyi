from .peaks import Peaks as Peaks
from .peaks import PullUpRules as PullUpRules
from .peaks import find_peaks as find_peaks
from .peaks import find_pull_up as find_pull_up
from .peaks import flatten as flatten
