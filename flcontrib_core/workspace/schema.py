"""The tables of the index.

``log`` is the record: runs and results are *views* of it, alerts, decisions and the questions of jobs are its entries,
so nothing can disagree with the hash chain. ``cached`` points at objects that describe themselves; ``jobs`` holds what
changes about a job; ``removals`` remembers files whose deletion was decided but not yet carried out. All of it can be
rebuilt from files, which is also how an index of an older version becomes today's. Columns that matter stand in an
index too: the integrity check compares both, so a flipped bit is noticed.
"""

from __future__ import annotations

APPLICATION_ID = 0x464C4357  # "FLCW"
VERSION = 2
"""1: a memory of its own beside the objects, jobs described in their folders."""

SCHEMA = """
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,      -- the run (or object) it is about
    previous TEXT NOT NULL,     -- hash of the entry before
    hash TEXT NOT NULL UNIQUE,  -- sha256 of entry
    entry TEXT NOT NULL         -- canonical JSON: sequence, previous, at, kind, subject, body
);
CREATE INDEX log_by_subject ON log (kind, subject);
CREATE TRIGGER log_is_never_edited BEFORE UPDATE ON log
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER log_is_never_cut BEFORE DELETE ON log
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TABLE jobs (
    id TEXT PRIMARY KEY,        -- digest of kind, run and settings: one job for one question
    sequence INTEGER NOT NULL UNIQUE,  -- the log entry that asked it
    place INTEGER NOT NULL,     -- in the queue; renewed when a job is queued again
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    error TEXT NOT NULL,
    result TEXT,
    version TEXT NOT NULL,
    seconds REAL NOT NULL       -- of all attempts, by a clock that never jumps
);
CREATE INDEX jobs_by_state ON jobs (state, place);

CREATE TABLE cached (           -- what can be computed again: finished epochs, coalition utilities
    key TEXT NOT NULL,
    object TEXT NOT NULL,
    what TEXT NOT NULL,
    family TEXT NOT NULL,       -- the run's d_0: a grown run shares its beginning with its shorter self
    PRIMARY KEY (key, object)
);
CREATE INDEX cached_by_family ON cached (family, what);
CREATE INDEX cached_by_object ON cached (object);

CREATE TABLE removals (path TEXT PRIMARY KEY);

CREATE VIEW standing AS         -- entries about runs that were not deleted since
    SELECT * FROM log AS noted
     WHERE NOT EXISTS (SELECT 1 FROM log AS gone WHERE gone.kind = 'run-deleted'
                          AND gone.subject = noted.subject AND gone.sequence > noted.sequence);

CREATE VIEW runs AS             -- the last time each was added
    SELECT max(sequence) AS sequence, subject AS digest, hash, entry,
           (SELECT group_concat(json_quote(json_extract(named.entry, '$.body.name')), ',') FROM standing AS named
             WHERE named.kind = 'run-named' AND named.subject = added.subject) AS other_names
      FROM standing AS added WHERE kind = 'run-added' GROUP BY subject;

CREATE VIEW results AS
    SELECT sequence, subject AS run, json_extract(entry, '$.body.kind') AS kind,
           json_extract(entry, '$.body.object') AS object, hash, entry
      FROM standing WHERE kind = 'result-kept';

CREATE VIEW asked AS            -- jobs with the questions they answer
    SELECT jobs.*, log.subject AS run, json_extract(log.entry, '$.body.kind') AS kind, log.hash, log.entry
      FROM jobs JOIN log USING (sequence);
"""
