"""The networks between machines: the lab's switch on a site, shaped links, trunks from host to host."""
