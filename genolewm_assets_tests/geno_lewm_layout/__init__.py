"""Tests of ``genolewm_assets.geno_lewm_layout``."""
