"""k-mer vocabulary and stored tokens."""
