"""Vocabularies, contexts and tokenizers of models that do not read tagged 6-mers, and tiny models of each kind."""
