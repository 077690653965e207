"""Run the command line as a module."""

from stageguard.cli import main

if __name__ == "__main__":  # worker processes import this file too
    main()
