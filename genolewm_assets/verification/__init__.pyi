from .records import find_record_faults as find_record_faults
from .records import further_findings as further_findings
from .records import verify_whole_root as verify_whole_root
