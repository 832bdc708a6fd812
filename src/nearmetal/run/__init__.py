"""Running a plan. This package alone calls plugins; everything it does is an event."""
