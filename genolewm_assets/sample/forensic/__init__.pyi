from .run import RUN_FOLDER as RUN_FOLDER
from .run import simulate_run as simulate_run
