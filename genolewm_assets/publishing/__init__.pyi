from .commands import package_fetch as package_fetch
from .commands import package_publish as package_publish
