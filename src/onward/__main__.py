"""`python -m onward` is the `onward` command."""

from onward.cli import main

if __name__ == "__main__":
    main()
