package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/tally"
)

// Origins are stored as lists of strings that follow each other: a commit appends its list unless the column holds it, which two analyzers can do
// without reading. Reading puts them together.

// gatheredText writes a list, "" for none.
func gatheredText(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return list(all...)
}

// addressTexts are addresses and nodes in turn.
func addressTexts(all []tally.Address) []string {
	out := make([]string, 0, 2*len(all))
	for _, a := range all {
		out = append(out, a.Address, a.Node)
	}
	return out
}

func answerTexts(all []int32) []string {
	out := make([]string, 0, len(all))
	for _, c := range all {
		out = append(out, strconv.FormatInt(int64(c), 10))
	}
	return out
}

// eachGathered calls f for each list of a column.
func eachGathered(s string, f func(all []string) error) error {
	if s == "" {
		return nil
	}
	for d := json.NewDecoder(strings.NewReader(s)); ; {
		var all []string
		err := d.Decode(&all)
		if errors.Is(err, io.EOF) {
			return nil
		}
		for i := 0; i < len(all) && err == nil; i++ {
			all[i], err = unescape(all[i])
		}
		if err == nil {
			err = f(all)
		}
		if err != nil {
			return fmt.Errorf("reading who made the requests of a finding: %w", err)
		}
	}
}

// parseOrigins reads the columns users, user_groups, impersonated, addresses and answers.
func parseOrigins(to *tally.Origins, columns *[5]string) error {
	for i, add := range []func([]string) tally.Origins{
		func(all []string) tally.Origins { return tally.Origins{Users: all} },
		func(all []string) tally.Origins { return tally.Origins{Groups: all} },
		func(all []string) tally.Origins { return tally.Origins{Impersonated: all} },
	} {
		if err := eachGathered(columns[i], func(all []string) error {
			one := add(all)
			to.Merge(&one)
			return nil
		}); err != nil {
			return err
		}
	}
	if err := eachGathered(columns[3], func(all []string) error {
		if len(all)%2 != 0 {
			return errors.New("an address without its node")
		}
		one := tally.Origins{}
		for i := 0; i < len(all); i += 2 {
			one.Addresses = append(one.Addresses, tally.Address{Address: all[i], Node: all[i+1]})
		}
		to.Merge(&one)
		return nil
	}); err != nil {
		return err
	}
	return eachGathered(columns[4], func(all []string) error {
		one := tally.Origins{}
		for _, s := range all {
			code, err := strconv.ParseInt(s, 10, 32)
			if err != nil {
				return err
			}
			one.Answers = append(one.Answers, int32(code))
		}
		to.Merge(&one)
		return nil
	})
}
