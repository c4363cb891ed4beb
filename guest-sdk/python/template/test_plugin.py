"""Runs every case in cases/: an observation, and what is to be decided on it."""

import unittest
from pathlib import Path

from guesthouse_sdk.testing import check, read_case

from plugin import plugin

CASES = sorted(Path(__file__).with_name("cases").glob("*.json"))


class Cases(unittest.TestCase):
    def test_there_are_cases(self) -> None:
        self.assertTrue(CASES)

    def test_every_case(self) -> None:
        for path in CASES:
            with self.subTest(path.stem):
                check(plugin, read_case(path))


if __name__ == "__main__":
    unittest.main()
