"""What does the index hold, and how does an older one become today's?

``log`` is the record: runs and results are *views* of it, alerts and decisions are its entries, so nothing can disagree
with the hash chain. ``epochs`` and ``shelves`` point at files that describe themselves; ``jobs`` mirrors the jobs' own
folders; ``removals`` remembers files whose deletion was decided but not yet carried out. All of it can be rebuilt from
files. Columns that matter stand in an index too: the integrity check compares both, so a flipped bit is noticed.
"""

from __future__ import annotations

from collections.abc import Sequence

APPLICATION_ID = 0x464C4357  # "FLCW"

Migration = str
"""A script that lifts the index by one version; version 0 is an empty database."""

MIGRATIONS: Sequence[Migration] = (
    """
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
        sequence INTEGER NOT NULL UNIQUE,
        place INTEGER NOT NULL,     -- in the queue; renewed when a job is queued again
        kind TEXT NOT NULL,
        run TEXT NOT NULL,
        settings TEXT NOT NULL,
        limits TEXT NOT NULL,
        state TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        error TEXT NOT NULL,
        result TEXT,
        version TEXT NOT NULL,
        seconds REAL NOT NULL,      -- of all attempts, by a clock that never jumps
        submitted_at TEXT NOT NULL
    );
    CREATE INDEX jobs_by_state ON jobs (state, place);

    CREATE TABLE epochs (
        key TEXT PRIMARY KEY,
        object TEXT NOT NULL,
        family TEXT NOT NULL        -- the run's d_0: a grown run shares its beginning with its shorter self
    );
    CREATE INDEX epochs_by_family ON epochs (family);
    CREATE INDEX epochs_by_object ON epochs (object);

    CREATE TABLE shelves (          -- the evaluation memory's index
        key TEXT PRIMARY KEY,       -- stands for epoch digest, weights and evaluator recipe
        family TEXT NOT NULL,
        coalitions INTEGER NOT NULL,
        asked INTEGER NOT NULL,
        recalled INTEGER NOT NULL
    );
    CREATE INDEX shelves_by_family ON shelves (family);

    CREATE TABLE removals (path TEXT PRIMARY KEY);

    CREATE VIEW runs AS             -- the last time each was added, unless it was deleted since
        SELECT max(added.sequence) AS sequence, added.subject AS digest, added.hash, added.entry,
               (SELECT group_concat(json_quote(json_extract(named.entry, '$.body.name')), ',') FROM log AS named
                 WHERE named.kind = 'run-named' AND named.subject = added.subject
                   AND named.sequence > coalesce((SELECT max(gone.sequence) FROM log AS gone
                         WHERE gone.kind = 'run-deleted' AND gone.subject = added.subject), 0)) AS other_names
          FROM log AS added
         WHERE added.kind = 'run-added'
           AND NOT EXISTS (SELECT 1 FROM log AS gone WHERE gone.kind = 'run-deleted'
                              AND gone.subject = added.subject AND gone.sequence > added.sequence)
         GROUP BY added.subject;

    CREATE VIEW results AS
        SELECT kept.sequence, kept.subject AS run, json_extract(kept.entry, '$.body.kind') AS kind,
               json_extract(kept.entry, '$.body.settings_digest') AS settings_digest,
               json_extract(kept.entry, '$.body.object') AS object, kept.hash, kept.entry
          FROM log AS kept
         WHERE kept.kind = 'result-kept'
           AND NOT EXISTS (SELECT 1 FROM log AS gone WHERE gone.kind = 'run-deleted'
                              AND gone.subject = kept.subject AND gone.sequence > kept.sequence);
    """,
)
