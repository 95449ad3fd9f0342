from .findings import further_findings as further_findings
from .findings import verify_whole_root as verify_whole_root
from .records import find_record_faults as find_record_faults
