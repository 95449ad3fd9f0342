"""How well a package teaches: a linear and a small residual probe, trained on it and scored on its holdouts.

Belongs here: features of a batch, the probes, their scores, and the table of an evaluation. Does not belong here: what
a batch is (``training``), states and likelihoods (``encoders``), a world model.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
