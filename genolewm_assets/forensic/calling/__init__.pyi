from .calls import OFF_LADDER as OFF_LADDER
from .calls import CalledPeak as CalledPeak
from .calls import PeakFlag as PeakFlag
from .calls import ProfileCalls as ProfileCalls
from .profile import CallingRules as CallingRules
from .profile import call_alleles as call_alleles
