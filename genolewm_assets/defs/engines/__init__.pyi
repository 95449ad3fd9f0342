from .forwarded import check_places as check_places
from .k8s_executor import make_k8s_executor as make_k8s_executor
from .op_tags import H100_ASSET_TAGS as H100_ASSET_TAGS
from .op_tags import H100_POOL as H100_POOL
from .op_tags import card_type as card_type
from .op_tags import cpu_op_tags as cpu_op_tags
from .op_tags import h100_op_tags as h100_op_tags
from .ray_executor import make_ray_executor as make_ray_executor
