"""What must not be trained on, and why."""
