"""Every problem a run log can have: its code, what it means, what is expected instead, and how to mend it.

The one table from which messages and documentation come (docs/run-log.md, "Codes"). A key is a code, or ``CODE:case``
where one code has to be mended in different ways. A message fills in where and what was found, and where the table
cannot know it, what this very log should have had instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from flcontrib_core.runs import limits

MINIMAL_MANIFEST = (
    '{"format": "flrun", "version": 1, "clients": [{"id": "a", "data_size": 100}], '
    '"parameters": [{"name": "weight", "shape": [2, 4]}], "files": {"initial.safetensors": "<sha256>"}}'
)
_TABLE = (
    "Write the table as the template shows, or say which column is what, on the page or to flcontrib import: any "
    "names, separators and decimal signs will do."
)
_ZIP_AGAIN = "Zip the run directory again with an ordinary tool."
_EVIDENCE = "Evidence, not an error: look at this client's training."


@dataclass(frozen=True)
class ProblemKind:
    """One row of the table."""

    meaning: str
    """What the code says, for the documentation; empty where another row of the same code says it."""
    expected: str
    fix: str


PROBLEMS: dict[str, ProblemKind] = {
    key: ProblemKind(*row)
    for key, row in {
        # the files of a log
        "E_MISSING": ("a file, or an argument of the recorder, is not there", "a file of that name",
                      "Add it; docs/run-log.md shows how."),
        "E_MISSING:manifest": ("", "a file of that name", f"A minimal one: {MINIMAL_MANIFEST}"),
        "E_MISSING:runs": ("", "one run", "Name one of the runs in the folder."),
        "E_MISSING:folder": ("", "the files at the top", "Bundle the content of that folder, not the folder."),
        "E_MISSING:path": ("", "a run log", "Check the path."),
        "E_MISSING:argument": ("", "an argument", "Pass it to the recorder."),
        "E_MISSING:rows": ("", "(x, y), a loader of (x, y) batches or a dataset of such rows",
                           "Give the rows and their targets as two arrays."),
        "E_READ": ("a file cannot be read", "a readable file", "Check that the file exists and may be read."),
        "E_FILE_TYPE": ("a link, pipe or device", "plain files", "Put the file itself there."),
        "E_FILE_DUP": ("names that differ only in case", "names that differ in more than case", "Remove one."),
        "E_FILE_COUNT": ("too many files", f"at most {limits.MAX_ENTRIES}", "Split the run."),
        "E_FILE_SIZE": ("larger than the limits above", "a smaller one", "Split the run."),
        "E_FILE_SIZE:text": ("", f"at most {limits.MAX_JSON_BYTES}", "Keep tensors and notes out of it."),
        "E_FILE_SIZE:tensors": ("", "fewer numbers", "Log fewer numbers, or a sample of the rows."),
        "E_FILE_SIZE:epoch": ("", "fewer numbers in one epoch",
                              f"Store updates in 16 bits, or raise {limits.EPOCH_BYTES_VARIABLE}."),
        "E_FILE_SIZE:disk": ("", "room on the disk for at least one epoch", "Record to a larger disk."),
        "E_FILE_SIZE:names": ("", f"at most {limits.MAX_STRANGERS}", "List the clients in the manifest."),
        "E_FILE_SIZE:parquet": ("", "a table that is quick to decode",
                                "Write the table again with fewer rows, shorter texts, or as CSV."),
        "E_CHANGED": ("a file changed after it was checked", "a log that stays as it is", "Read the log again."),
        "E_HASH": ("content that has not the hash the log gives, or no hash given", "64 hex digits",
                   "Record or copy the file again, with its sha256."),
        "E_HASH:resume": ("", "the recorded tensors", "Remove the last line of epochs.jsonl to record it again."),
        "E_PICKLE": ("a format that can run code", "no code in a log",
                     "Open it where you trust it and write it again with flcontrib_core.RunRecorder (or "
                     "safetensors.numpy.save_file)."),
        "E_CHECK_COST": ("too costly to check", "a log that the server can check with little memory and time",
                         "Add it on the server itself: flcontrib runs add FILE."),
        # imports
        "E_IMPORT": ("files that make no federation", "files of clients, each with a round and a name in its path",
                     "Name them like round_3/site-a.pt, client_a_round_3.npz or site-a/epoch-3/model.safetensors."),
        "E_IMPORT:file": ("", "named tensors that load without running code",
                          "Save state dicts: torch.save(net.state_dict(), …), numpy.savez or safetensors."),
        "E_IMPORT:rounds": ("", "rounds without a gap", "Add the round, or import the rounds before it alone."),
        "E_IMPORT:kind": ("", "a server's or an initial model to compare with",
                          "Say whether the files are models or updates."),
        "E_IMPORT:counts": ("", "a count for every client, or for none",
                            "Add the missing counts, or take the table away: then all clients weigh the same."),
        "E_IMPORT:initial": ("", "the model before the first round",
                             "Add it as initial.pt, as the server's model of the round before, or name it."),
        "E_IMPORT:cost": ("", "files that open with little memory and time", "Import fewer rounds at a time."),
        "E_IMPORT:table": ("", "a column of epochs, one of clients and at least one of numbers",
                           "Say which column is the epoch, the client and the values; docs/recording.md shows how."),
        # archives
        "E_ZIP": ("not a zip file, or cut off", "a whole archive", _ZIP_AGAIN),
        "E_ZIP_DATA": ("an entry's bytes are damaged", "the bytes that were zipped", "Copy or zip the file again."),
        "E_ZIP_NAME": ("unsafe names", "plain names", "Zip the run directory's content with its own names."),
        "E_ZIP_TYPE": ("links and devices", "plain files", "Bundle the file itself."),
        "E_ZIP_DUP": ("a name twice", "each name once, whatever its case", "Remove one of the two."),
        "E_ZIP_OVERLAP": ("entries sharing bytes", "entries side by side", _ZIP_AGAIN),
        "E_ZIP_LIE": ("sizes or headers that are not the real ones", "what is declared", _ZIP_AGAIN),
        "E_ZIP_BOMB": ("expands too much", f"at most {limits.MAX_RATIO} times as many",
                       "Store the entry uncompressed."),
        "E_ZIP_BOMB:all": ("", "less to inflate for its size",
                           "Unpack the archive and use the directory, or zip it without compression."),
        "E_ZIP_ENTRIES": ("too many entries",
                          f"at most {limits.MAX_ENTRIES} entries, {limits.MAX_DIRECTORY_BYTES} bytes",
                          "Bundle only the files of one run."),
        "E_ZIP_METHOD": ("another method than stored or deflated", "stored (0) or deflated (8)",
                         "Zip it with deflate."),
        "E_ZIP_ENC": ("encrypted", "open entries", "Zip it without a password."),
        # texts
        "E_JSON": ("not JSON in UTF-8", "JSON in UTF-8", "Correct the text there and save it as plain UTF-8."),
        "E_JSON_DEPTH": ("too deep", f"at most {limits.MAX_JSON_DEPTH}", "Write the plain structure."),
        "E_JSON_INT": ("integers beyond 64 bits", "64-bit integers", "Write a smaller number."),
        "E_JSON_NONFINITE": ("NaN or infinity", "finite numbers", "Leave the key out instead."),
        "E_JSON_DUPKEY": ("a key twice", "each key once", "Keep one of the two."),
        "E_FORMAT": ("not a run log", '"flrun"', "Is this a run log?"),
        "E_VERSION": ("another version", "version 1 or 2", "Version 1 is the oldest: record the run again."),
        "E_VERSION:newer": ("", "version 1 or 2", "Update flcontrib: the log needs a newer one."),
        "E_MANIFEST": ("a manifest entry of the wrong kind", "what docs/run-log.md shows", "Correct it there."),
        "E_MANIFEST:none": ("", "an object", f"A minimal one: {MINIMAL_MANIFEST}"),
        "E_TRUTH": ("unusable labels", "a list of labelled clients", "Correct the label or leave truth out."),
        "E_CLIENT_ID": ("an unusable id", f"1 to {limits.MAX_ID_CHARACTERS} characters",
                        "Give every client a name of its own."),
        "E_CLIENT_DUP": ("the same id twice", "each id once (after NFC)", "Rename one, or keep one of the two."),
        "E_CLIENT_SIZE": ("a data size that is no whole number ≥ 1",
                          f"a whole number from 1 to {limits.MAX_DATA_SIZE}", "Give the number of training rows."),
        "E_EPOCH_ORDER": ("gaps or repeats", "epochs 1, 2, 3, … in order, none left out or repeated",
                          "Number the epochs from 1, one after the other."),
        "E_EPOCH_FILE": ("an unusable file name", "epochs/NNNNN.safetensors, one file per epoch",
                         "Name each epoch's file so."),
        "E_EPOCH_NONE": ("no epoch yet", "at least one epoch", "Wait for the first epoch to end."),
        "E_EPOCH_COUNT": ("too many epochs", f"at most {limits.MAX_EPOCHS}", "Split the run."),
        "E_PARTICIPANTS": ("unknown, doubled or contradicting participants", "each participant once",
                           "Record the epoch as it happened."),
        "E_PARTICIPANTS:unknown": ("", "ids of manifest.json", "List the client in the manifest, or correct the id."),
        "E_PARTICIPANTS:updates": ("", "one update per participant",
                                   "Leave participants out, or name those who sent an update."),
        "E_PARTICIPANTS:rows": ("", "one number per row", "Give one number for each row, or a mapping by id."),
        "E_PARTICIPANTS:claims": ("", "{kind, client, node, claimed} as docs/run-log.md shows",
                                  "Write the claim as the recorder does."),
        "E_WEIGHTS": ("aggregation weights that are no positive numbers", "a positive number for each participant",
                      "Give every participant's weight, or leave weights out and let data sizes decide."),
        "E_START_EPOCH": ("a start that is no earlier model", "the epoch whose model the update began from",
                          "Leave it out for updates that began from the last model."),
        "E_NOTES": ("an unusable note", "{client, epochs, text, by, when} as docs/run-log.md shows",
                    "Correct the note or leave it out."),
        "E_EPOCH_GAP": ("a gap's reason that is no short text", f"at most {limits.MAX_TEXT_CHARACTERS} characters",
                        "Say in a sentence why the round was not recorded."),
        "E_METRICS": ("metrics that are no numbers", f"an object of up to {limits.MAX_METRICS} numbers",
                      "Leave it out."),
        # tensors
        "E_ST_HDR": ("not a safetensors file", "a safetensors file", "Save it with safetensors.numpy.save_file."),
        "E_ST_MANY": ("too many tensors", f"at most {limits.MAX_TENSORS} tensors", "Join small tensors or log fewer."),
        "E_ST_OFF": ("tensors that overlap or leave holes", "tensors side by side, none sharing bytes",
                     "Save the file again."),
        "E_ST_DTYPE": ("another number type", "F32 or F16 or BF16", "Convert the numbers before saving them."),
        "E_ST_DTYPE:range": ("", "numbers that float16 can hold", "Store the updates as bfloat16 or float32."),
        "E_SHAPE": ("tensors missing, extra or of another shape", "the manifest's shapes",
                    "Record the run with one model."),
        "E_SHAPE:rows": ("", "one row per participant",
                         "Give one row per participant, or a mapping from ids to updates."),
        "E_SHAPE:names": ("", "one name per array",
                          "Pass parameters=net.state_dict() with the tensors in the order the clients send them."),
        "E_NONFINITE": ("NaN or infinity", "finite numbers",
                        'Read the log with nonfinite="absent" to treat such clients as not participating.'),
        "E_NONFINITE:model": ("", "finite numbers", "Start from a sound model."),
        "E_NONFINITE:cell": ("", "finite numbers",
                             'Leave the cell empty, or read the table with nonfinite="absent".'),
        # the architecture and the validation set
        "E_MODEL": ("an architecture that cannot be read", "what docs/run-log.md shows",
                    "Correct model.json; docs/run-log.md lists the operations."),
        "E_MODEL_OP": ("unknown operations", "the known operations", "Use only these operations."),
        "E_MODEL_NAME": ("names that are no parameters", "a name from manifest.parameters",
                         "Make model.json describe the trained model."),
        "E_MODEL_SHAPE": ("operations that do not fit", "shapes that fit",
                          "Make model.json describe the trained model."),
        "E_MODEL_SHAPE:rows": ("", "rows that the model takes, prepared as for training",
                               "Give the validation rows in the shape and type that clients train with."),
        "E_MODEL_SIZE": ("too large a model", "a model that this machine's memory can audit",
                         f"Log the trained part of the model, or raise {limits.PARAMETERS_VARIABLE}."),
        "E_FROZEN": ("a frozen part that is not the one the log names", "the part that the manifest names",
                     "Give the base that the clients trained upon."),
        "E_FROZEN:none": ("", "a manifest that names one", "Leave it out: the log holds the whole model."),
        "E_VALID_EMPTY": ("no validation rows", "at least one row", "Add validation rows."),
        "E_LABEL": ("labels out of range or of another kind", "whole numbers from 0",
                    "Store labels as int64, one per row, counted from 0."),
        "E_LABEL:targets": ("", "the targets of the manifest's task",
                            "Store the targets in the type and shape of the task; docs/run-log.md lists them."),
        "E_FEATURES": ("unusable features", "finite features",
                       "Clean the validation rows and store them in the shape the model takes."),
        # tables
        "E_TABLE": ("not one of the two tables", "comma-separated values", _TABLE),
        "E_TABLE_VALUE": ("a cell that is no number", "a number or an empty cell", _TABLE),
        "E_TABLE_DUP": ("a row twice", "one row each", _TABLE),
        "E_COALITION": ("a coalition missing", "all coalitions of the participants", "Add the missing coalition."),
        # the recorder
        "E_CLOSED": ("a recorder that was closed", "an open recorder", "Open the run again."),
        "E_NOT_EMPTY": ("a folder that holds something else", "an empty folder, a new one, or one that holds this run",
                        "Record into a folder of its own."),
        "E_OTHER_RUN": ("a folder that holds another run",
                        "the same federation, and a model that is its first or its last",
                        "Train on from last_model(), or record into a new folder."),
        "E_IN_USE": ("a run that is being recorded", "one recorder per run", "Close the other one first."),
        # evidence
        "W_AGGREGATE": ("the stored `global` is not the weighted mean of the updates", "the weighted mean",
                        "Contributions are of the recomputed model; the rest is reported as the server's share."),
        "W_ZERO_DELTA": ("an update of zeros", "updates that move the model", _EVIDENCE),
        "W_DUPLICATE_DELTA": ("an update equal bit by bit to another one", "updates of one's own", _EVIDENCE),
        "W_NORM": (f"a norm above {limits.NORM_ABOVE:g} times or below {limits.NORM_BELOW:g} times the others' median",
                   f"norms between {limits.NORM_BELOW:g} and {limits.NORM_ABOVE:g} times the median of the other "
                   "participants", _EVIDENCE),
        "W_NONFINITE_ABSENT": ('read with nonfinite="absent": these clients count as absent in these epochs',
                               "finite numbers",
                               "Treated as absent in these epochs, as asked; it may be the attack itself."),
        "W_IDENTITY": ("a reply came under a name that is bound to another node",
                       "each name from the one node it belongs to",
                       "Ask who runs the node. It is recorded under a name of its own, so that nobody answers for it; "
                       "a restarted node looks the same, and names=… on the server settles it."),
        "W_GAP": ("rounds that happened and could not be recorded", "every round",
                  "Their change counts as the server's share; the training's own log has the cause."),
        "W_NO_LEARNING": ("the global model, rebuilt from the log, does not learn", "a validation loss that falls",
                          "Check the updates, the initial model and the validation rows before reading any value."),
        "W_UPDATE_MODEL": ("updates that look like models", "updates: the local model minus the model it started from",
                           "Subtract the model that was sent out before recording."),
        "W_UPDATE_SIGN": ("updates that seem to have the wrong sign", "the local model minus the model it started from",
                          "Turn the sign of the updates before recording."),
        "W_LABEL_SHIFT": ("validation labels that seem to be shifted", "labels as the clients trained with them",
                          "Count the classes from 0 as in training."),
        "W_INPUT_SCALE": ("validation inputs that seem to have another scale than in training",
                          "inputs prepared as the clients prepare theirs",
                          "Scale the validation inputs as in training."),
        "W_AGGREGATE_RULE": ("what would make the updates add up to the stored `global`",
                             "the weighted mean of the updates",
                             "Record what the server really did; until then the rest is the server's share."),
        "W_SLOPE": ("first updates that lead nowhere on the validation rows", "updates along the slope of its loss",
                    "Check the initial model, the order of parameters, and validation inputs and labels."),
        "W_TRUTH": ("a truth section that the verdicts contradict", "the same clients in both",
                    "Check the labels; where they are right, the audit missed or mistook somebody."),
        "W_MODEL_COST": ("a model too dear to rebuild whole here", "a model that a check can run in a second or two",
                         "An audit evaluates all rows, within the ceilings of its job."),
        "W_METRICS": ("recorded metrics that the rebuilt model contradicts", "about the same numbers",
                      "Other rows give other numbers; else check the updates and the initial model."),
        "W_CONFUSABLE": ("ids that look alike", "names that cannot be mistaken for each other",
                         "Compare the escaped forms."),
        "W_VERSION": ("something that only version 2 knows", "version 2 in manifest.json",
                      "It was ignored: write version 2 to have it read."),
        "W_VALID_SMALL": (f"fewer than {limits.SMALL_VALIDATION} validation rows",
                          f"at least {limits.SMALL_VALIDATION}", "Values are coarse: add rows."),
        "W_EXTRA_FILE": ("files that are not part of the format", "only the files of the format",
                         "They are ignored."),
    }.items()
}  # fmt: skip
"""key -> (meaning, expected, fix)"""


def documentation() -> str:
    """The table as the page shows it: a code, what it says, and how to mend it."""
    rows = ["| code | says | how to mend it |", "|---|---|---|"]
    for code in dict.fromkeys(key.partition(":")[0] for key in PROBLEMS):
        ways = [kind.fix for key, kind in PROBLEMS.items() if key.partition(":")[0] == code]
        short = dict.fromkeys("Start from the example above." if MINIMAL_MANIFEST in way else way for way in ways)
        rows.append(f"| `{code}` | {PROBLEMS[code].meaning} | {' / '.join(short)} |")
    return "\n".join(rows) + "\n"
