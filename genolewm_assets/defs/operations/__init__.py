"""Jobs, schedules, sensors, the demo."""
