from .next_release import add_next_release as add_next_release
from .writer import check_sample as check_sample
from .writer import write_sample as write_sample
