"""``python -m genolewm_assets_tests.rooms ROOM ...``: print the tests of these rooms and of those above them."""

import sys

from genolewm_assets_tests.rooms import TESTS, tests_of

if __name__ == "__main__":
    try:
        paths = [path.as_posix() for path in tests_of(sys.argv[1:])] if sys.argv[1:] else [TESTS]
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.write("\n".join(paths) + "\n")
