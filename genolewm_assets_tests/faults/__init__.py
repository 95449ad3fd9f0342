"""What goes wrong on purpose: kills, power cuts, full and refusing disks."""
