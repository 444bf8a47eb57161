"""A folder of models or updates, dropped as a zip or named on the server: what it was taken for is said before a run is
made of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from flcontrib_core.errors import FLContribError
from flcontrib_core.runs import FolderGlance, holds_tensor_files, import_apart, write_bundle
from flcontrib_core.words import folder_note, folder_understood
from flcontrib_dashboard import controls, problem_cards, state

ASKED = "folder-of-tensors"
RECOGNISED = "As recognised"
KINDS = {RECOGNISED: None, "Models": "models", "Updates": "updates"}
Kind = Literal["models", "updates"]
Take = Callable[[Path, str, str], None]
"""Takes a finished log in: its file, the name of what it was made from, and how that was understood."""


@dataclass(frozen=True)
class Folder:
    """A zip that was dropped, or a folder's path on the server."""

    key: str
    name: str
    path: Path | None = None

    @classmethod
    def of(cls, given: UploadedFile) -> Folder:
        """What was dropped."""
        return cls(given.file_id, given.name)

    @classmethod
    def at(cls, path: Path) -> Folder:
        """A folder, or a zip of one, on the server."""
        return cls(str(path), path.name, path)


@contextmanager
def _on_disk(folder: Folder, given: UploadedFile | None) -> Iterator[Path]:
    if folder.path is not None:
        yield folder.path
        return
    assert given is not None
    with tempfile.TemporaryDirectory(prefix="flcontrib-") as scratch:
        path = Path(scratch) / "given.zip"
        path.write_bytes(given.getbuffer())
        yield path


def is_one(folder: Folder, given: UploadedFile | None) -> bool:
    """Files of tensors and no run log?"""
    with _on_disk(folder, given) as path:
        return holds_tensor_files(path)


def ask(folder: Folder) -> None:
    """Opens the dialog for this folder; it stays open until it is answered or closed."""
    st.session_state[ASKED] = folder


def asked(given: UploadedFile | None) -> Folder | None:
    """The folder whose dialog is open; a zip's only as long as it lies in the field."""
    folder: Folder | None = st.session_state.get(ASKED)
    if folder is None or folder.path is not None or (given is not None and given.file_id == folder.key):
        return folder
    return None


def _close() -> None:
    st.session_state.pop(ASKED, None)


def _glance(folder: Folder, given: UploadedFile | None, kind: Kind | None) -> FolderGlance:
    def look() -> FolderGlance:
        with _on_disk(folder, given) as path:
            return import_apart(path, folder.name, kind)

    if folder.path is not None:  # files on the server may change at any time
        return look()
    return state.cached((folder.key, "folder", kind), look)


@st.dialog("What is in this folder?", width="large", on_dismiss=_close)
def choose(folder: Folder, given: UploadedFile | None, take: Take) -> None:
    """Says what the files were taken for, takes another word for it, and makes the run."""
    try:
        picked = st.segmented_control("Clients' files hold", list(KINDS), default=RECOGNISED, key="folder-kind")
        kind = cast(Kind | None, KINDS[picked or RECOGNISED])
        with st.spinner("Looking at the files, in a process of its own …"):
            seen = _glance(folder, given, kind)
        if seen.understood:
            st.markdown("\n".join(f"- {controls.text_of(line)}" for line in folder_understood(seen.understood)))
        if seen.problems:
            problem_cards.show_cards(seen.problems)
        if st.button("Make a run of it", type="primary", disabled=bool(seen.problems) or not seen.understood):
            _make(folder, given, kind, take)
    except FLContribError as fault:
        st.error(controls.text_of(str(fault)))


def _make(folder: Folder, given: UploadedFile | None, kind: Kind | None, take: Take) -> None:
    with tempfile.TemporaryDirectory(prefix="flcontrib-") as scratch, _on_disk(folder, given) as path:
        target = Path(scratch) / "run"
        made = import_apart(path, folder.name, kind, target)
        if made.problems:
            problem_cards.show_cards(made.problems)
            return
        files = sorted(str(file.relative_to(target)) for file in target.rglob("*") if file.is_file())
        bundle = write_bundle(target, files, target.with_name("run.flrun"))
        take(bundle, f"{Path(folder.name).stem}.flrun", folder_note(folder.name, made.understood))
    _close()
    st.rerun()
