"""The build. Needs componentize-py, and takes a minute."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

needs_componentize_py = unittest.skipUnless(
    importlib.util.find_spec("componentize_py"), "componentize-py is not installed; see requirements.txt"
)


def build(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(PROJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "guesthouse_sdk", "build", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


class Build(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    @needs_componentize_py
    def test_the_same_source_gives_the_same_bytes_in_any_folder(self) -> None:
        digests = set()
        for name in ("one", "quite/another"):
            project = self.folder / name
            project.mkdir(parents=True)
            shutil.copyfile(PROJECT / "conformance/conformance.py", project / "conformance.py")
            built = build(project, "conformance", "-o", "conformance.wasm")
            self.assertEqual(built.returncode, 0, built.stderr)
            digests.add(hashlib.sha256((project / "conformance.wasm").read_bytes()).hexdigest())
            self.assertEqual({path.name for path in project.iterdir()}, {"conformance.py", "conformance.wasm"})
        self.assertEqual(len(digests), 1)

    @needs_componentize_py
    def test_a_plugin_that_cannot_be_imported_says_why_and_leaves_no_file(self) -> None:
        (self.folder / "broken.py").write_text("import missing\n")
        built = build(self.folder, "broken", "-o", "broken.wasm")
        self.assertEqual(built.returncode, 1)
        self.assertIn("ModuleNotFoundError: No module named 'missing'", built.stderr)
        self.assertNotIn("Stack backtrace", built.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*.wasm")], [])

    @needs_componentize_py
    def test_a_module_that_is_not_there_is_named(self) -> None:
        built = build(self.folder, "nowhere", "-o", "nowhere.wasm")
        self.assertEqual(built.returncode, 1)
        self.assertIn("error: no module 'nowhere' in ", built.stderr)

    @unittest.skipUnless(importlib.util.find_spec("wasmtime"), "wasmtime is not installed, which reads WebAssembly's text form")
    def test_the_committed_module_is_what_its_source_says(self) -> None:
        import wasmtime

        source = (PROJECT / "guesthouse_sdk/snapshot.wat").read_text(encoding="utf-8")
        committed = (PROJECT / "guesthouse_sdk/snapshot.wasm").read_bytes()
        self.assertEqual(bytes(wasmtime.wat2wasm(source)), committed)


if __name__ == "__main__":
    unittest.main()
