"""Standing texts: what words, charts and marks mean, what the tool cannot know, what an empty page says."""

from __future__ import annotations

TAKEN_PART = "took part, computed"
NOT_COMPUTED = "took part, not computed (budget)"
ABSENT = "absent"
TOUR = (
    ("The title is the finding", "Every page begins with a sentence computed from the run on screen. Under it are the "
     "clients it rests on, and the curves: **up is help**. Follow a client above the charts, and all pages show it.",
     "contributions", "See every epoch's values"),
    ("Every mark can be questioned", "*Alerts* shows why a client was marked and, beside it, what speaks against that. "
     "It describes what was observed, never why. You decide, and your decision follows into headline and report.",
     "alerts", "See the evidence"),
    ("Plan before you pay", "*Scheduler* prices a run before anything is computed: which epochs, at what cost, and "
     "whom a smaller budget no longer sees.", "scheduler", "See the plan"),
    ("Bring in your own run", "*Upload* takes a log or any table of contributions, names every fault at once, and "
     "shows whether the federation learned. *Help* explains the words; *Settings* hides the samples.",
     "upload", "Bring in a run"),
)  # fmt: skip
"""Title, text, and the page to go to with its label."""
RETENTION = (
    "Decide how long single updates are needed: usually until the verdicts are settled and the time for objections has "
    "passed. Then drop the log, or delete the run, and the recording where it lies; reports and extracts hold no "
    "update, and can be verified only as long as the log exists. The audit log keeps that the run was here."
)
MODEL_AS_EXPECTED = "Nothing speaks against reading the log as it is."
OUTDATED = (
    "Recompute it: this version stores more about a result than the older one did, and never guesses what is missing. "
    "Decisions about its alerts stand, and evaluations that were remembered are used again."
)
NO_UPDATES = "None stand here: this run is a table, or its log was not kept any more when this was written."
LOG_NOT_KEPT = "The log of this run is not kept any more: add it again to compute anything from it."
STALE = "The old result is kept until then; results of two versions are never mixed."
EMPTY = (
    "This workspace holds no run. Bring in a log of a federated training, or a table of contributions: then this page "
    "shows who contributed what, and whose behaviour changed when."
)
GONE = (
    "Runs, results and decisions lie in that folder, and no empty one is put in its place: as soon as it is back, they "
    "are here again."
)
SO_FAR = (
    "Found so far, read with the strict preset; hatched epochs are still to come. What is marked may change until the "
    "end."
)
GROWING = (
    "Until somebody says that the training has ended, this run may still grow. Every look is another chance of a false "
    "alarm, so an alert needs more here than in a finished run (the online preset), and it is provisional."
)
AT_WORK = "A recorder is at work in its folder."
NOT_AT_WORK = "No recorder is at work in its folder: the training has ended, or it broke off and may go on."
SETTLING = "The training has ended: the whole of it is being taken in and audited."
AWAITED_FIRST = "What is found shows here as soon as the first epoch is computed."
AWAITED = {
    "Scheduler": "Choosing epochs weighs the model's movement in every epoch against every other: this page fills "
    "when the last one is known.",
    "Report & export": "A report carries final numbers only: its files can be taken when the job has ended.",
}
"""Pages that have nothing to show before a job ends, and what each waits for."""

GLOSSARY = {
    "Shapley value": "a client's average effect on the model over all groups of participants it could have joined.",
    "Cumulative contribution": "the running sum of a client's values; shown so that help points up.",
    "Null client": "a client that did not take part in an epoch; its value there is exactly zero.",
    "Not computed": "the client took part, but the budget skipped the epoch. It is not zero: it is unknown.",
    "Change-point probability": "how probable it is that a client's series starts a new segment at an epoch.",
    "Window": "a stretch of epochs in which several observations of a client moved together.",
    "Jaccard index": "overlap between the honest clients and the clusters that hold them; one single cluster already "
    "scores high, so the chance-adjusted value is shown beside it.",
    "k/T": "the share of epochs whose values are computed. Cost is counted in evaluations, not in k/T.",
    "γ (gamma)": "how much fairness weighs against coverage when epochs are chosen.",
    "Exposure": "the share of a client's epochs that is computed.",
    "Two-sided fairness": "cover the model's movement (the server's side) and see all clients equally often (theirs).",
    "Preset": "how much must speak for a window before it becomes an alert; strict asks for more than default. The "
    "rate on honest simulated runs stands beside each.",
    "Channel": "one kind of observation on an update: its value, direction, size, spread, and so on. Several of them "
    "moving together make a window.",
    "Smallest visible shift": "the smallest change per epoch that these settings would have noticed.",
    "Server's share": "what the server's own rule moved beyond the weighted mean of the updates.",
}
MARKED = (
    "Ask the operator for the extract made for you: it lists the sha256 of every update of yours that was recorded.",
    "Compare those with what you sent. A difference is the log's, not yours.",
    "Read what speaks against the mark; it stands beside the reasons, in the same size.",
    "Anybody who holds the log can compute the result again: `flcontrib verify report.json run.flrun`.",
    "A change is not a motive. New data, a new label scheme or a broken pipeline look the same from outside.",
)
LIMITS = (
    "Values depend on the validation set: what it does not measure has no value here.",
    "A client that is harmful from the first to the last epoch cannot be told from one with bad data.",
    "Small steps below the shift named on the overview stay unseen.",
    "An attacker who knows every channel can stay under all of them at the price of doing less harm.",
    "Groups on the cluster page form among honest clients too.",
)
METHOD = (
    "Every epoch is a game between its participants: each group's model is rebuilt from the recorded updates.",
    "The values of an epoch add up to what the model gained in it; absent clients get zero.",
    "A budget chooses epochs; the cheap observations still run in all of them.",
    "Observations are compared with the peers of the same epoch and searched for windows; thresholds come from "
    "simulated honest runs.",
)
START = (
    "**Upload** takes a run log or a table, names every fault in it, and says what computing it will cost.",
    "**Overview** gives the verdict in one sentence, and the clients it rests on.",
    "**Alerts** opens the evidence of each mark, what speaks against it, and takes your decision.",
    "**Client** and **Epoch** tell the whole story of one of them; both have an address.",
    "**Contributions** shows every client in every epoch and its share of the improvement.",
    "**Scheduler** shows what a smaller budget saves, and whom it no longer sees.",
    "**Report & export** hands all of it on: to a person, to a program, or to one client.",
)
CHARTS = {
    "Cumulative contribution": "up is help. A line that falls costs the model quality in those epochs. Grey: the "
    "middle 50% and 80% of the others. Shaded, with a bar above: the marked window. Thin and dotted: the epochs were "
    "skipped, and the line shows an equal split instead of values.",
    "The global model": "rebuilt from the log's updates and tried on its validation rows: where the federation "
    "learned, loss falls and accuracy rises. Beside it stands what speaks against reading the log as it is.",
    "Participation strip": "one row per client under the curves, with the three states of a cell.",
    "Total contribution": "a dot per client with its 95% interval, best first. Filled: the interval excludes zero.",
    "Heat map": "a row per client, a column per epoch; blue helped, red harmed, pale is near zero. Colours end at the "
    "95th percentile, so that the first epochs do not outshine the rest.",
    "Evidence": "three rows on one epoch axis: the client's curve against the others, the probability of a change, and "
    "every epoch's value with its interval.",
    "Which classes moved": "per class, how the model's margin changed inside the window. Both signs speak for another "
    "mix of classes, one sign for harm to all.",
    "Change points": "cells that stand out are probable changes. Neighbouring epochs share one change, so their "
    "probabilities are added.",
    "Groups": "a panel per group of similar series; wide grey is the group's centre.",
    "Chosen epochs": "bar height is the share of the model's movement; filled is computed, hatched is skipped.",
    "Exposure": "which share of each client's epochs is computed; even bars are fair.",
    "Cost against fairness": "the exposure gap for every budget; the ring is the one chosen now.",
    "Ranks": "each client's place in two results; coloured where it moved by two places or more.",
}
MARKS = {
    "■ filled": "took part, and the value was computed. A value of zero is computed too.",
    "▨ hatched": "took part, but the epoch was not computed: unknown, not zero.",
    "· dot": "absent: did not take part, which is worth exactly zero.",
    "Colour, dash and marker": "belong to one client, on every page. Clients without an alert stay grey until you "
    "follow them.",
    "exact, ±": "a number without an interval says so; 'exact' means every group of participants was evaluated.",
    "Provisional": "a job is still at work; what is marked may change until it ends.",
}
AROUND = {
    "Follow": "choose a client or a stretch of epochs above the charts, or click a mark: all pages then show it. Click "
    "it again to open the page of that client or epoch.",
    "Link": "the address in the browser holds run, page, client, epochs and settings: copy it to share the view.",
    "Keyboard": "Tab goes from control to control, arrow keys move a slider, Space switches, Enter presses.",
    "Without seeing": "every chart has a description, and Show as table turns it into its numbers.",
    "Take a chart": "Export gives its CSV; the camera at its corner saves a PNG or SVG.",
    "Light and dark": "follow your system's setting.",
}
COMMANDS = {
    "`flcontrib check RUN.flrun`": "names every fault of a log.",
    "`flcontrib audit RUN.flrun`": "computes the same verdicts without a browser.",
    "`flcontrib verify report.json RUN.flrun`": "computes a report again and says whether it is equal.",
    "`flcontrib watch FOLDER`": "follows a run while it is recorded.",
    "`flcontrib serve --workspace FOLDER`": "opens this dashboard on a workspace.",
}
