from .packed_attention import packed_states as packed_states
from .packed_rows import PackedRow as PackedRow
from .prefixes import PrefixEncoder as PrefixEncoder
