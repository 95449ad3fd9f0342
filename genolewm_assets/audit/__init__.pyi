from .audit import audit_package as audit_package
from .plant import plant_leaks as plant_leaks
from .planted import PLANTS as PLANTS
from .power import measure_power as measure_power
from .report import AuditReport as AuditReport
from .report import Verdict as Verdict
