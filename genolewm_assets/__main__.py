"""Entry point of ``python -m genolewm_assets``, the same command as ``genolewm``."""

from genolewm_assets.cli import main

main()
