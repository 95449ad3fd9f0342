"""What every asset needs: workspace, gate, partitions, automation, log."""
