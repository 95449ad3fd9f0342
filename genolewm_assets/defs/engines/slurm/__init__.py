"""Builds as Slurm jobs: settings, commands, states of jobs, the Pipes client that follows one, and what a job tells.

Not here: which builds are jobs (``runtime.job_builds``), and the program that a job runs (``defs.slurm_job``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
