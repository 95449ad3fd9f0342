from .shard import GnomadParams as GnomadParams
from .shard import build_gnomad_shard as build_gnomad_shard
from .shard import write_empty_shard as write_empty_shard
