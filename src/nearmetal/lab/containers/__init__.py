"""Containers of Docker and Podman: the engine, its images, a machine in one."""
