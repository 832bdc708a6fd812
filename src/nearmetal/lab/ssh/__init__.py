"""Hosts and machines by SSH: logging in, commands in a connection, a site that is another host."""
