package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
)

// moveFacts moves what the state lacked, as sentences in addition to the counts, to gaps. What is not facts of a report is left as it is.
func moveFacts(ctx context.Context, w tx) error {
	b := &batch{t: &factsTable}
	err := w.each(ctx, `SELECT instance, body, at FROM facts ORDER BY instance`, nil, func(scan func(...any) error) error {
		var instance string
		var body []byte
		var at int64
		if err := scan(&instance, &body, &at); err != nil {
			return err
		}
		if coded, changed, err := codedFacts(body); err != nil {
			return fmt.Errorf("reading what %s stored for the report: %w", instance, err)
		} else if changed {
			b.add(instance, coded, at)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.upsert(ctx, b)
}

func codedFacts(body []byte) (out []byte, changed bool, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, false, err
	}
	var holes []string
	var state map[string]json.RawMessage
	var warnings []string
	for _, part := range []struct {
		from json.RawMessage
		to   any
	}{{all["holes"], &holes}, {all["state"], &state}} {
		if len(part.from) > 0 {
			if err := json.Unmarshal(part.from, part.to); err != nil {
				return nil, false, err
			}
		}
	}
	if len(state["warnings"]) > 0 {
		if err := json.Unmarshal(state["warnings"], &warnings); err != nil {
			return nil, false, err
		}
	}
	if state == nil {
		return nil, false, nil
	}
	gaps := []codes.Gap{}
	for _, s := range warnings {
		g := codes.Gap{Code: codeOfWarning(s), Params: codes.Params{codes.Text(codes.ParamMessage, s)}}
		if slices.Contains(holes, s) {
			g.Kind = codes.State
		}
		gaps = append(gaps, g)
	}
	delete(all, "holes")
	delete(state, "warnings")
	if all["state"], err = json.Marshal(state); err != nil {
		return nil, false, err
	}
	if all["gaps"], err = json.Marshal(gaps); err != nil {
		return nil, false, err
	}
	out, err = json.Marshal(all)
	return out, true, err
}

// codeOfWarning is the code of a warning about the state. A name from a file stands at the beginning only of the last two kinds.
func codeOfWarning(s string) codes.Code {
	for _, x := range []struct {
		begin string
		code  codes.Code
	}{
		{"the state holds no PersistentVolume, though", codes.VolumesMissing}, {"the state holds no ", codes.KindMissing},
		{"the state begins ", codes.StateBeginsLate}, {"the state ends ", codes.StateEndsEarly},
		{"the cluster was not watched for ", codes.NotWatched}, {"the cluster was not watched ", codes.NotWatchedMore},
		{"the journal holds ", codes.WatchErrors}, {"entries of the state ", codes.StateUnreadable},
		{"the watch of kind ", codes.WatchInterrupted},
	} {
		if strings.HasPrefix(s, x.begin) {
			return x.code
		}
	}
	switch {
	case strings.HasPrefix(s, "objects of kind ") && strings.Contains(s, " may not be listed "):
		return codes.KindRefused
	case strings.HasPrefix(s, "objects of kind "):
		return codes.KindUnlisted
	case strings.HasSuffix(s, " holds nothing of use"):
		return codes.FileUseless
	}
	return codes.EntryUnreadable
}
