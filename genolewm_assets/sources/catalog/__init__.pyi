from .agreement import find_contradictions as find_contradictions
from .agreement import find_impossible_shares as find_impossible_shares
from .agreement import mitochondrial_contig as mitochondrial_contig
from .catalog import Catalog as Catalog
from .catalog import built_in_catalogs as built_in_catalogs
from .catalog import load_catalog as load_catalog
from .fields import InvalidCatalogError as InvalidCatalogError
from .fields import Release as Release
