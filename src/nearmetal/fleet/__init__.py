"""A run whose blocks are measured on several sites at once. Dask carries blocks there, and nothing more.

`assignment` says which site has which block. `site` is what happens on a site, `worker` the process that stands there,
`messages` what both ends say to each other. `cluster` reaches the sites, `block_pieces` brings home what they
measured, and `controller` runs a plan with them: it alone writes the run's journal, in the order of the plan.
"""
