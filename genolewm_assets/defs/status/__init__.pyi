from .asset import status_asset as status_asset
from .page import Section as Section
from .page import headline as headline
from .page import sections as sections
from .release_table import read_release_table as read_release_table
from .release_table import release_metadata as release_metadata
from .report import Status as Status
from .report import read_status as read_status
