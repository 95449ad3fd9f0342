"""Files that survive a crash: atomic writes, plain reads, generations behind a link, canonical JSON."""
