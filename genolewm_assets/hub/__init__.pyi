from .errors import hub_errors as hub_errors
from .files import HUB_SCHEME as HUB_SCHEME
from .files import HubFile as HubFile
from .files import HubFiles as HubFiles
from .files import check_cached as check_cached
from .files import download_files as download_files
from .repository import COMMIT as COMMIT
from .repository import HubRepository as HubRepository
