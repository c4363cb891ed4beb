"""`python -m guesthouse_sdk build MODULE -o OUT.wasm`"""

import argparse
import sys

from ._build import BuildError, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m guesthouse_sdk", description="Builds Guesthouse plugins.")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="make a component of a module", description=build.__doc__)
    make.add_argument("module", help="the module or package that has the Plugin as `plugin`")
    make.add_argument("-o", "--output", required=True, help="the file to write")
    make.add_argument(
        "--with",
        dest="others",
        metavar="MODULE",
        action="append",
        default=[],
        help="a further module or package to take along; may be given more than once",
    )
    asked = parser.parse_args()
    try:
        print(build(asked.module, asked.output, asked.others), file=sys.stderr)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
