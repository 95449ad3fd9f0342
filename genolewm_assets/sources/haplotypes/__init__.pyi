from .genotypes import read_phased as read_phased
