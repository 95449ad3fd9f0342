from .file import HidFile as HidFile
from .file import parse_hid as parse_hid
from .file import read_hid as read_hid
