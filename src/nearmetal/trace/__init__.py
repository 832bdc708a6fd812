"""What captures say of requests: the probe takes them apart, this tells it to people, records and the report."""
