"""``python -m genolewm_assets`` is ``genolewm``."""

from genolewm_assets.cli import main

main()
