"""The data platform behind genomic world models: a Dagster asset graph of checked, reproducible data sets.

Rooms: ``genome`` (coordinates, sequences, contigs), ``variants`` (the allele table), ``store`` (crash-safe files),
``sources`` (readers of outside formats, downloads, catalogues), ``encoders`` (states of DNA language models), ``lewm``
(training data of genomic world models), ``mito`` (mitochondrial genomes), ``forensic`` (forensic DNA profiles),
``sample`` (the simulated miniature), ``defs`` (the Dagster layer). The modules beside them are the command line
(``cli``, ``artefact_commands``, ``catalog_commands``, ``console``, ``launch``), the Dagster entry point
(``definitions``), and ``errors`` and ``progress``, which every room uses.
"""

__version__ = "0.1.0"
