"""``python -m mgrec``: the command, where its script is not on the path."""

from mgrec_command import main

if __name__ == "__main__":
    main()
