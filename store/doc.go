// Package store keeps what a running analyzer must not lose: how far each lane is done, what its requests add up to by the hour, findings
// in groups, the memory of rules, the ledger of evidence, and active alerts. It is embedded (SQLite, one process) or on PostgreSQL (several analyzers); what is
// stored and how it adds up is the same, and one suite of tests holds both to it.
//
// What goes in: a [tally.Commit], which is stored whole or not at all ([Store.Commit]). Each request counts once: its ID is kept for as long
// as it may come again, and who comes second is marked. What comes out: a [tally.Tally] of any window ([Store.Tally]), a lane and where it
// continues ([Store.Acquire]), and what else was put in, the ledger of evidence among it ([Store.Evidence]). Strings from logs are kept as they are, whatever bytes they hold, and how much of
// them is kept is bounded by the hour.
//
// A lane belongs to who acquired it under the highest fence; the commits of all others are refused ([tally.FencedError]).
//
// A commit adds its evidence as one row; every ten seconds what commits added, of whichever process, is merged into the ledger's own rows. Evidence
// is a set: it merges with what is there in any order, and is never taken back. It goes with its hour's counts.
//
// The package imports evidence, tally and what a tally is made of, and pipeline/source for its errors. It is the only one that speaks SQL.
package store
