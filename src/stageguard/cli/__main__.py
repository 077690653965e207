"""Run the command line as a module. Holds nothing else."""

from stageguard.cli import main

if __name__ == "__main__":  # worker processes import this file too
    main()
