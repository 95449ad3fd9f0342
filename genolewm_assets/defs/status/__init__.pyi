from .asset import status_asset as status_asset
from .page import Section as Section
from .page import headline as headline
from .page import sections as sections
from .report import Status as Status
from .report import read_status as read_status
