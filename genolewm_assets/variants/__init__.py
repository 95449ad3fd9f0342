"""One allele table whatever its source: schema, normal form, order, ledger, checks, changes between releases."""
