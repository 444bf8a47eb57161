"""What the fuzzer calls: one input through one door of the reader.

The first byte of an input chooses the door: a whole archive, one file of a run directory, a tensor file whose hash is
made right, or a table. Only ``RunLogError`` may come out, or a run that the plain libraries read alike.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from flcontrib_core.errors import RunLogError
from flcontrib_core.runs.bundle import read_run_log
from flcontrib_core.runs.run_log import RunLog
from tests.corpus.good_logs import Files, LogWriter, rehash, write_directory, zipped
from tests.corpus.plain_reader import assert_same_content
from tests.corpus.tables import CONTRIBUTIONS, UTILITIES


def _small_log() -> Files:
    writer = LogWriter(seed=1, epochs=2, rows=3)
    writer.add_globals()
    return writer.files()


FILES = _small_log()
NAMES = sorted(FILES)
TENSOR_FILES = [name for name in NAMES if name.endswith(".safetensors")]


def seeds() -> list[bytes]:
    """One good input for every door."""
    found = [bytes([0]) + zipped(FILES, method) for method in (0, 8)]
    found += [bytes([1, number]) + FILES[name] for number, name in enumerate(NAMES)]
    found += [bytes([2, number]) + FILES[name] for number, name in enumerate(TENSOR_FILES)]
    found += [bytes([3]) + text.encode() for text in (CONTRIBUTIONS, UTILITIES)]
    return found


def _write(data: bytes, folder: Path) -> Path:
    door, rest = data[0] % 4, data[1:]
    if door in (0, 3):
        path = folder / ("input.flrun" if door == 0 else "input.csv")
        path.write_bytes(rest)
        return path
    names = NAMES if door == 1 else TENSOR_FILES
    name = names[(rest[:1] or b"\0")[0] % len(names)]
    files = {**FILES, name: rest[1:]}
    return write_directory(rehash(files) if door == 2 else files, folder / "run")


def one_input(data: bytes) -> None:
    """The target: read one input through the door that its first byte names."""
    if not data:
        return
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        path = _write(data, folder)
        try:
            run = read_run_log(path)
        except RunLogError:
            return
        if isinstance(run, RunLog):
            assert_same_content(run, path)
            run.close()
    finally:
        shutil.rmtree(folder)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, cut, copied or put in; a whole run of the seed's own bytes as often as noise."""
    mutated = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(mutated) + 1)
        match rng.randrange(5):
            case 0 if at < len(mutated):
                mutated[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 1:
                del mutated[at : at + rng.randint(1, 40)]
            case 2:
                start = rng.randrange(len(data))
                mutated[at:at] = data[start : start + rng.randint(1, 60)]
            case 3:
                mutated[at:at] = rng.randbytes(rng.randint(1, 8))
            case _ if at < len(mutated):
                mutated[at] ^= 1 << rng.randrange(8)
            case _:
                pass
    return bytes(mutated)


def random_search(runs: int, seed: int) -> None:
    """The fallback without atheris."""
    rng = random.Random(seed)
    known = seeds()
    for _ in range(runs):
        one_input(mutate(rng.choice(known), rng))
