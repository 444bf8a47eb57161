"""The words for the members of closed lists that facts refer to."""

from __future__ import annotations

from flcontrib_core.detection.facts import Unavailable
from flcontrib_core.detection.objections import Alternative, OrdinaryCause
from flcontrib_core.history.remarks import NoValues

ALTERNATIVES = {
    Alternative.OTHER_UTILITY: "values of another utility",
    Alternative.WITHOUT_VALUES: "without the Shapley values",
    Alternative.WITHOUT_MARGIN: "without the solo margin",
    Alternative.WITHOUT_DIRECTIONS: "without the directions",
    Alternative.SMALLER_SHIFT: "a smaller shift is enough",
    Alternative.LARGER_SHIFT: "a larger shift is asked for",
    Alternative.WIDER_NOISE: "wider prior of the noise",
    Alternative.SHORTER_WINDOWS: "windows up to 40% of the run",
    Alternative.WITHOUT_THIRD_1: "without every third epoch (1 of 3)",
    Alternative.WITHOUT_THIRD_2: "without every third epoch (2 of 3)",
    Alternative.WITHOUT_THIRD_3: "without every third epoch (3 of 3)",
}
CAUSES = {
    OrdinaryCause.LOCAL_STEPS: "more or fewer local steps",
    OrdinaryCause.OPTIMISER: "another optimiser or learning rate",
    OrdinaryCause.PRIVACY_FILTER: "a privacy filter",
    OrdinaryCause.COMPRESSION: "compressed updates",
    OrdinaryCause.NEW_DATA: "new data",
}
UNAVAILABLE = {
    Unavailable.NO_VALUES: "no epoch of this run has computed values",
    Unavailable.NO_UPDATES: "it needs the clients' updates, and a table of contributions has none",
    Unavailable.NO_MODEL: "it needs a model and a validation set",
    Unavailable.NO_GROUPS: "what is measured here knows neither classes nor groups of rows",
    Unavailable.NOT_RECORDED: "it was not recorded in this run",
    Unavailable.CONSTANT: "it is the same for everybody in every epoch, and so tells nobody apart",
    Unavailable.NO_PEERS: "no epoch after the second has two participants with this observation",
    Unavailable.LEFT_OUT: "it was left out to test a finding",
}


VALUES_UNKNOWN = {
    NoValues.NOT_ASKED: "No Shapley values were asked for: harm is judged by what its own step does to the model.",
    NoValues.NO_MODEL: "Harm is not measurable: the log has no model, so nothing says whether the model got worse.",
    NoValues.NO_VALIDATION: (
        "Harm is not measurable: the log has no validation set, so nothing says whether the model got worse."
    ),
    NoValues.NO_FROZEN: (
        "Harm is not measurable: the frozen part of the model was not given, so nothing says whether it got worse."
    ),
    NoValues.NO_METRIC: (
        "Harm is not measurable: the log's task has no metric here, so nothing says whether the model got worse."
    ),
}
