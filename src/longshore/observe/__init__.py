"""What Longshore's processes tell about themselves: numbers for a monitor to collect."""
