"""The subcommands of `onward`, one file each."""
