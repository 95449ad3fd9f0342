from .files import read_panel as read_panel
from .ladder import LadderFit as LadderFit
from .ladder import LadderRules as LadderRules
from .ladder import fit_ladder as fit_ladder
from .panel import Bin as Bin
from .panel import Locus as Locus
from .panel import Panel as Panel
from .panel import is_amelogenin as is_amelogenin
