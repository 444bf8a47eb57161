"""Paper: the method's own evaluation made again, each claim beside what came out, and the way to make it here."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from flcontrib_core.charts import draw_panels, panels_alt, panels_rows
from flcontrib_core.reports import QUESTIONS, REPRODUCTION, PaperFigure, read_paper_figures
from flcontrib_core.words import numbers
from flcontrib_core.workspace import ResultEntry
from flcontrib_dashboard import controls, job_progress, state

NARROWEST = "52rem"
"""Of a figure with its panels side by side; a narrower screen moves it under its own edge."""
NO_DATA = (
    "Making a figure needs the data sets: start the server with FLCONTRIB_DATA set to the folder that holds Adult, "
    "COMPAS and CIFAR-10."
)


@st.cache_resource(max_entries=1, show_spinner=False)
def bundled_figures() -> dict[str, PaperFigure]:
    """The figures that come with the package."""
    return read_paper_figures()


def made_here(name: str) -> ResultEntry | None:
    """The newest figure of this name that a job of this workspace made."""
    made = state.workspace().results("", REPRODUCTION)
    return next((entry for entry in made if entry.available and entry.settings["figure"] == name), None)


def figure_on_screen(name: str) -> tuple[PaperFigure | None, ResultEntry | None]:
    """The figure, and the result it is from; None for the latter where it came with the package."""
    entry = made_here(name)
    if entry is None:
        return bundled_figures().get(name), None
    return state.cached((entry.digest, "paper"), lambda: state.workspace().load_result(entry)), entry


def claims(figure: PaperFigure) -> None:
    """Each claim, what the paper says, what came out."""
    controls.card_title("Claims")
    for claim in figure.claims:
        words, paper, ours, verdict = map(controls.text_of, claim.cells)
        colour = "orange" if claim.holds is False else "gray"
        st.markdown(f":{colour}-badge[{verdict}] **{words}**  \nPaper: {paper}. Ours: {ours}.")
    st.caption(controls.text_of(figure.note))


def drawings(figure: PaperFigure, digest: str) -> None:
    """Each drawing with one key for all its panels, as a table too; those of the appendix on demand."""
    st.html(
        f"<style>[class*='st-key-paper-figure'] {{ overflow-x: auto; }} "
        f"[class*='st-key-paper-figure'] .chart {{ min-width: {NARROWEST}; }}</style>"
    )
    for name, facts in figure.drawings.items():
        if name == figure.name or st.toggle(controls.text_of(facts.title), key=f"show-{name}"):
            drawing(figure, name, digest)


def drawing(figure: PaperFigure, name: str, digest: str) -> None:
    """One of them."""
    mode, facts = state.theme(), figure.drawings[name]
    controls.card_title(controls.text_of(facts.title))
    st.caption(controls.text_of(f"{facts.take_away} {figure.scale_words}"))
    with st.container(key=f"paper-figure-{name}"):
        controls.chart(
            lambda: draw_panels(facts, mode),
            panels_alt(facts),
            lambda: panels_rows(facts),
            f"paper-drawing-{name}",
            name=f"paper-{name}",
            cache_key=(digest, name, mode),
        )


def make_again(name: str, figure: PaperFigure | None, entry: ResultEntry | None) -> None:
    """What making the figure costs, and the button that starts it; its progress while it runs."""
    controls.card_title("Make it here")
    jobs = [j for j in state.workspace().jobs.poll() if j.kind == REPRODUCTION and j.settings["figure"] == name]
    if jobs and jobs[0].active:
        st.caption("Finished instances are kept: closing this page or stopping the server loses nothing.")
        job_progress.follow(jobs[0], previewed=False)
        return
    if entry is not None and not entry.stale:
        st.caption(controls.text_of(f"Done. Rows, drawing and claims lie in {state.workspace().path / 'paper'}."))
        return
    if jobs and jobs[0].error:
        st.error(f"The last job {job_progress.job_words(jobs[0])}.")
        st.code(jobs[0].error, language=None, wrap_lines=True)
    price = "" if figure is None else f"About {numbers.seconds(figure.price)} of one core, by what this one took. "
    st.markdown(f"{price}It trains the federations of the small scale and computes every method on them.")
    folder = os.environ.get("FLCONTRIB_DATA", "")
    ready = bool(folder) and Path(folder).is_dir()
    if not ready:
        st.caption(NO_DATA)
    if st.button("Make this figure", type="primary", disabled=not ready or state.workspace().impaired is not None):
        seeds = {} if figure is None else {"seeds": figure.seeds}  # the price is of as many
        state.workspace().jobs.submit("", {"figure": name, **seeds}, REPRODUCTION, recompute=True)
        st.rerun()
    st.caption("More seeds, more workers, and the paper's whole grid (days):")
    st.code(f"flcontrib reproduce {name} --scale full --workers 8 -o paper", language=None, wrap_lines=True)


known = {name: figure_on_screen(name)[0] for name in QUESTIONS}
decided = [claim.holds for figure in known.values() if figure is not None for claim in figure.claims]
st.title(f"The paper's evaluation made again: {decided.count(True)} of {numbers.several(len(decided), 'claim')} hold")
st.caption(f"{decided.count(False)} do not hold, {decided.count(None)} were not run or cannot be decided yet.")
name = controls.pick("Figure", "figure", {name: name.replace("-", " ").capitalize() for name in QUESTIONS})
figure, entry = figure_on_screen(name)
st.markdown(f"**{QUESTIONS[name]}**")
if figure is None:
    st.markdown("This figure has not been run yet.")
else:
    st.caption(
        "As it came with this version."
        if entry is None
        else f"Made in this workspace, {numbers.moment(entry.stored_at)}."
    )
    with st.container(border=True, gap="xsmall"):
        drawings(figure, "bundled" if entry is None else entry.digest)
    with st.container(border=True, gap="xsmall"):
        claims(figure)
with st.container(border=True, gap="xsmall"):
    make_again(name, figure, entry)
controls.next_steps(("help", "How the method works"), ("jobs", "All jobs"))
