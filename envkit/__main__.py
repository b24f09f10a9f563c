"""`python -m envkit`."""

from envkit.cli import main

if __name__ == "__main__":
    main()
