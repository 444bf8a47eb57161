"""The federation's first chart: whether the global model learned, and what speaks against reading the log as it is."""

from __future__ import annotations

import streamlit as st

from flcontrib_core.charts import (
    NOTHING,
    Following,
    draw_model_curve,
    model_curve_alt,
    model_curve_facts,
    model_curve_rows,
)
from flcontrib_core.words import wording
from flcontrib_core.workspace import RunEntry
from flcontrib_dashboard import controls, problem_cards, state


def show_model(entry: RunEntry, following: Following = NOTHING) -> None:
    """The rebuilt model's loss and accuracy with the warnings beside them; nothing before the log was measured."""
    found = state.meaning(entry)
    if found is None or (found[1].curve is None and not found[1].warnings):
        return
    digest, meaning = found
    wide, side = st.columns([1.75, 1], gap="small") if meaning.warnings else (st.container(), None)
    if meaning.curve is not None:
        facts, mode = model_curve_facts(meaning.curve), state.theme()
        with wide, st.container(border=True, gap="xsmall"):
            controls.card_title("The global model")
            calm = "" if meaning.warnings else f" {wording.MODEL_AS_EXPECTED}"
            st.caption(controls.text_of(f"{model_curve_alt(facts)}{calm}"))
            controls.chart(
                lambda: draw_model_curve(facts, mode, following),
                model_curve_alt(facts),
                lambda: model_curve_rows(facts),
                "model",
                name="global-model",
                cache_key=(digest, following, mode),
            )
    if side is not None:
        with side, st.container(border=True, gap="xsmall"):
            controls.card_title("Is the log what was meant?")
            problem_cards.show_cards(meaning.warnings)
