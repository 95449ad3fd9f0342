"""Who may write a place, and whether that process still lives."""
