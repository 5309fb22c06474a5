"""`python -m paceline` is the same as `paceline`."""

from paceline.cli import main

if __name__ == "__main__":
    main()
