"""What every subcommand shares: its answer, its flags, and errors of the command line."""
