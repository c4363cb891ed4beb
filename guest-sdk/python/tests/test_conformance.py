"""The project's conformance suite, natively: all that a plugin and the SDK can be asked without a host."""

import json
import unittest
from pathlib import Path

from conformance.conformance import plugin
from guesthouse_sdk.testing import check, describe

PROJECT = Path(__file__).resolve().parents[1]
SUITE = json.loads((PROJECT.parents[1] / "tests/conformance/cases.json").read_text(encoding="utf-8"))

ONLY_IN_THE_HOST = {
    "clock": "natively the wall clock is the machine's; the host shows the observation's time",
    "random": "natively randomness is random; the host gives the same in every call",
}


class Conformance(unittest.TestCase):
    def test_describe(self) -> None:
        wanted = {name: value for name, value in SUITE["describe"].items() if value != []}
        self.assertEqual(describe(plugin) | {"sdk": "*"}, wanted)

    def test_every_case_that_needs_no_host(self) -> None:
        for case in SUITE["cases"]:
            with self.subTest(case["name"]):
                if reason := ONLY_IN_THE_HOST.get(case["name"]):
                    self.skipTest(reason)
                check(plugin, case)


if __name__ == "__main__":
    unittest.main()
