"""What a process has of its system: files, folders, pipes, signals, secrets; and what the system refuses."""
