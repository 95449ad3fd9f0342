from .profile import OFF_LADDER as OFF_LADDER
from .profile import CalledPeak as CalledPeak
from .profile import CallingRules as CallingRules
from .profile import PeakFlag as PeakFlag
from .profile import ProfileCalls as ProfileCalls
from .profile import call_alleles as call_alleles
