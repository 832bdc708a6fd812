"""Which CPUs whoever gets, who else may run there, and what is heard and waited for on them."""
