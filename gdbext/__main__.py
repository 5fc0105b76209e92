"""``python -m gdbext``: the same as the console script."""

from gdbext.launcher.start import main

if __name__ == "__main__":
    raise SystemExit(main())
