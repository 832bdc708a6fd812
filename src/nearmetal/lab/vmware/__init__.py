"""What the environment `vmware` is made of: virtual machines of vSphere's, on a vCenter or a host of ESXi."""
