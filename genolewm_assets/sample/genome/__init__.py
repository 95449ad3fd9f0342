"""The simulated genome: contigs, repeats, genes and transcripts."""
