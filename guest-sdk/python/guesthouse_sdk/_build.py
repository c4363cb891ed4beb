"""Makes a component of a plugin, by componentize-py."""

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

#: The version whose memory snapshot.wat knows.
COMPONENTIZE_PY = "0.25.1"

HERE = Path(__file__).parent

#: The module that is the component's: the plugin, as componentize-py looks for it, in a settled interpreter.
MAIN = """\
from {module} import plugin
from guesthouse_sdk._door import export
from guesthouse_sdk._snapshot import settle

Plugin = export(plugin)
settle()
"""

RUN = "import sys, componentize_py; sys.argv[0] = 'componentize-py'; componentize_py.script()"


class BuildError(Exception):
    """Why there is no component."""


def build(module: str, output: str | Path, others: Iterable[str] = ()) -> str:
    """Makes a component of a module or package and says what came of it. The component holds that, the SDK and what `--with`
    names, and nothing else of this machine: the same sources give the same bytes."""
    try:
        version = importlib.metadata.version("componentize-py")
    except importlib.metadata.PackageNotFoundError:
        version = "none"
    if version != COMPONENTIZE_PY:
        hint = f"{sys.executable} -m pip install componentize-py=={COMPONENTIZE_PY}"
        raise BuildError(f"componentize-py {COMPONENTIZE_PY} is needed, found {version}\nhint: {hint}")
    with tempfile.TemporaryDirectory(prefix="guesthouse-", dir=_memory()) as folder:
        stage = Path(folder)
        made = stage / "plugin.wasm"
        app = stage / "app"
        app.mkdir()
        for name in [module, *others]:
            _stage(name, app)
        _stage("guesthouse_sdk", app)
        shutil.copyfile(HERE / "snapshot.wasm", app / "guesthouse_snapshot.abi3.so")
        (app / "guesthouse_main.py").write_text(MAIN.format(module=module))
        _componentize(stage, app, made)
        return _deliver(made, Path(output))


def _memory() -> str | None:
    """Where to work: in memory, if the machine has such a folder. The order in which a folder lists its files shows in the
    component, and it is the same on every tmpfs, but not on every disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _stage(name: str, app: Path) -> None:
    """Copies a module or package without what running it left behind."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or "." in name:
        raise BuildError(f"no module {name!r} in {Path.cwd()} or among the installed packages")
    source = Path(spec.origin)
    if spec.submodule_search_locations is None:
        shutil.copyfile(source, app / source.name)
        return
    package = source.parent
    # In order, since the order in which files are made is that in which a folder in memory lists them.
    for file in sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        copy = app / name / file.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def _componentize(stage: Path, app: Path, made: Path) -> None:
    # componentize-py takes along what a virtual environment has installed; this one has nothing.
    (stage / "venv/lib/site-packages").mkdir(parents=True)
    environment = os.environ | {"VIRTUAL_ENV": str(stage / "venv"), "TMPDIR": str(stage)}
    contract = [f"--wit-path={HERE / 'wit'}", "--world=reconciler"]
    component = ["guesthouse_snapshot", f"--python-path={app}", f"--output={made}"]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, "--quiet", *contract, "componentize", *component],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if ran.returncode:
        # Between the tool's own call stack and the interpreter's stands what the plugin's import said.
        said = ran.stdout.partition("AssertionError: ")[2] or ran.stdout
        raise BuildError("the plugin cannot be imported in a component:\n" + said.partition("\nCaused by:")[0].strip())


def _deliver(made: Path, output: Path) -> str:
    """Puts the component in its place at once, so that a host that watches the file never sees half of it."""
    content = made.read_bytes()
    beside = output.with_name(f".{output.name}.new")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(content)
        beside.replace(output)
    except OSError as error:
        raise BuildError(f"cannot write {output}: {error.strerror}") from error
    return f"{output}: {len(content) / 1e6:.1f} MB, sha256 {hashlib.sha256(content).hexdigest()}"
