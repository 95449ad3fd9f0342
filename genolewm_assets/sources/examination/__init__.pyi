from .catalog import examine_catalog as examine_catalog
from .finding import Answers as Answers
from .finding import Examination as Examination
from .finding import Finding as Finding
from .finding import invalid_keys as invalid_keys
