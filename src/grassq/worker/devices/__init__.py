"""What this machine has: processors, memory and devices."""
