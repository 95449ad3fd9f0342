from .layouts import detect_layout as detect_layout
from .release import check_gnomad_release as check_gnomad_release
from .release import read_gnomad_release as read_gnomad_release
from .shard import GnomadParams as GnomadParams
from .shard import build_gnomad_shard as build_gnomad_shard
from .shard import check_filters_applied as check_filters_applied
from .shard import write_empty_shard as write_empty_shard
