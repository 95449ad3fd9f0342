from .folders import Settling as Settling
from .folders import list_run_files as list_run_files
from .folders import list_run_folders as list_run_folders
from .folders import run_folder as run_folder
from .folders import why_unfinished as why_unfinished
