"""The last thing that happens in a build: what the interpreter keeps of it is settled, so that every build ends the same.

See snapshot.wat for the other half.
"""

import gc
import random
import sys


def settle() -> None:
    """Called once, at the end of the import of a plugin in a component."""
    random.seed(0)
    # Folders of the build with their times; none of them is there when the plugin runs.
    sys.path_importer_cache.clear()
    gc.collect()
    # Freed numbers are kept with their values, which were times and inodes: used once more, for others.
    _ = [(float(number), number) for number in range(1000, 2000)]
    # All that is there stays: no later collection needs to look at it.
    gc.freeze()
