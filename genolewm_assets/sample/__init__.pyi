from .writer import write_sample as write_sample
