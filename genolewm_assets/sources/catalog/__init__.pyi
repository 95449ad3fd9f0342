from .catalog import Catalog as Catalog
from .catalog import built_in_catalogs as built_in_catalogs
from .catalog import load_catalog as load_catalog
from .fields import Release as Release
