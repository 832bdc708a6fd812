"""From a study to a plan, with what this host knows of its noise, and what a plan is said to find."""
