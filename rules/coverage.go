package rules

// CoverageGap is the name of the rule whose findings come from the sources, not from requests.
const CoverageGap = "audit-coverage-gap"

func auditCoverageGap() *Rule {
	return &Rule{
		Name:     CoverageGap,
		Severity: Medium,
		Doc: `Part of the audit log may be missing

## What
A source of 'nodetrail run' lost part of its input, or is far behind:

- a log file was gone before it was read to its end;
- messages of a Kafka partition were deleted before they were read;
- a source has been more than five minutes behind.

The message names the source and what is known of the loss.

## Why
What is not in the log was not judged. A report from such a time cannot say that a binding is no longer needed: readiness is then
"not enough evidence".

## What to do
Keep rotated logs, or messages, for longer than nodetrail is ever stopped. If it cannot keep up, look at the metrics
'nodetrail_source_lag_seconds' and 'nodetrail_commit_seconds', and see docs/run.md for when one process is not enough.

## False positives
A log file that had been read to its end and was deleted while nodetrail was stopped cannot be told from one that was not.

## How to silence it
Run with '--disable audit-coverage-gap', or put it under 'rules.disable' in the configuration. The metric 'nodetrail_coverage_gaps_total'
counts on.`,
		// No single request shows what is missing.
		Check: func(*Request, State, *Memory) (Finding, bool) { return Finding{}, false },
	}
}
