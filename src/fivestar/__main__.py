"""Run the command line with `python -m fivestar` (needed by torchrun)."""

from fivestar.cli.main import main

if __name__ == "__main__":
    main()
