"""What the published studies printed, and how a report holds measured figures against it."""
